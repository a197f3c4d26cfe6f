"""The pieces of chapter 05."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
