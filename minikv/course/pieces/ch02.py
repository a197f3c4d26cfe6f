"""The pieces of chapter 02."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
