"""The pieces of chapter 04."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
