"""The pieces of chapter 06."""

from minikv.course.pieces.piece import Piece

PIECES: tuple[Piece, ...] = ()
