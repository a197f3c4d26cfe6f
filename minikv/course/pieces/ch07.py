"""The pieces of chapter 07."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
