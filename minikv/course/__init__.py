"""Pieces, hints, pictures and films: what the notebooks are made of (extra `course`)."""
