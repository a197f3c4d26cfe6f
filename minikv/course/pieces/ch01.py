"""The pieces of chapter 01."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
