"""The pieces of chapter 08."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
