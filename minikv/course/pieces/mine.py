"""The learner's own file, `my_minikv.py`: every piece that passed, and the package's versions of the others.

It is written by `check`, section by section. A section that the learner edits stays as it is. A new piece goes in only
when every own piece passes in the new file, and the file is replaced in one act, so it always runs. Of a piece that
has not passed, the last failing answer is at the end, as a comment: the class report reads it.
"""

from __future__ import annotations

import contextlib
import linecache
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from minikv.course.pieces.origin import NotKeptError, definitions, keep_older, kept_texts, lines_of
from minikv.course.pieces.piece import Piece, all_pieces, find_piece
from minikv.course.pieces.record import NUMBERING, mine_path, require_numbering
from minikv.course.pieces.trial import judge
from minikv.course.pieces.worlds import session
from minikv.engine import LAST, WITHOUT_TORCH, World, classes_for, engine_sections, section_of, sections
from minikv.files import locked, replace
from minikv.testing.attempt import TooLong, attempt

HEAD = f'''"""My own engine: the pieces that I wrote in the course, and the package's versions of the others.

A section begins with `# %%`. Edit your sections here or in their chapter; `check` saves a version that passes.
"""
# numbering of the pieces: {NUMBERING}
from minikv.course.pieces import given, ours

given(globals())  # Pool, Node, RadixCache, Ring, Sequence and CacheManager, as the chapters show them
'''
MINE, OURS = " · mine", " · the package's, until mine passes"
FAILED = " · my last failing answer, as a comment, until one passes"
_FAILED = re.compile(rf"# %% (\S+) \w+{FAILED}")
_NUMBERING = re.compile(r"^# numbering of the pieces: (\d+)\s*$", re.MULTILINE)
_END = "# -- end of the failing answer"
_LONGEST_FAILED = 20_000  # characters; a longer one is data rather than code


def _text_of(path: Path | None) -> str:
    """The text of the file; empty where there is none."""
    return path.read_text("utf-8-sig") if path is not None and path.exists() else ""


def kept_sections(text: str) -> dict[str, str]:
    """The text of each section of the learner's own, by the id of its piece.

    `NotOursError` for a file of another numbering: its ids may mean other pieces.
    """
    if (numbering := numbering_of(text)) is not None:
        require_numbering(numbering, "the file")
    return {s.id: s.text for s in sections(text) if s.remark.rstrip() == MINE and find_piece(s.id)}


def numbering_of(text: str) -> int | None:
    """The numbering of the pieces in a learner's file; `None` for a file without their sections.

    >>> numbering_of("# %% 3.1 split · mine"), numbering_of("import this")
    (1, None)
    """
    if not any(section.remark.rstrip() in (MINE, OURS) for section in sections(text)):
        return None
    said = _NUMBERING.search(text)
    return int(said[1]) if said else 1


def failed_sections(text: str) -> dict[str, str]:
    """The text of each answer that failed, by the id of its piece; none of a piece that has passed.

    >>> failed_sections(_with_failed("", {"3.3": "def split(node, at):\\n    return node"}))
    {'3.3': 'def split(node, at):\\n    return node'}
    """
    kept = kept_sections(text)
    return {id: own for id, own in _taken_out(text)[1].items() if id not in kept and find_piece(id)}


def _taken_out(text: str) -> tuple[str, dict[str, str]]:
    """The file without its failing answers, and these by the ids of their pieces: whole ones, that are comments yet."""
    rest: list[str] = []
    own: list[str] = []  # the lines of one, from its heading on, until its end is seen
    found = {}
    for line in text.split("\n"):
        if own and line.rstrip() == _END:
            id = _FAILED.fullmatch(own.pop(0).rstrip())[1]  # type: ignore[index]
            found[id] = "\n".join(each.rstrip("\r")[2:] for each in own)
            own = []
        elif _FAILED.fullmatch(line.rstrip()):
            rest += own
            own = [line]
        elif own and line.startswith("#") and not line.startswith("# %%"):
            own.append(line)
        else:
            rest += [*own, line]
            own = []
    return "\n".join(rest + own), found


def assembled(kept: Mapping[str, str]) -> str:
    """The whole file: the learner's sections, and ours in the place of the others.

    >>> 'walk = ours("3.4", globals())' in assembled({"3.3": "def split(node, at): ..."})
    True
    >>> [f'ours("{id}"' in assembled({}) for id in ("8.1", "10.1")]  # the last is 8
    [True, False]
    """
    asked = {piece.id for piece in all_pieces()}
    others = [s for s in engine_sections() if s.id not in {"given", *asked} and s.chapter in WITHOUT_TORCH]
    found = [HEAD + "".join(f'{section.name} = ours("{section.id}", globals())\n' for section in others)]
    newest, shown = {piece.name: piece.id for piece in all_pieces()}, set(WITHOUT_TORCH)
    begun = {piece.chapter for piece in all_pieces() if piece.id in kept}
    for piece in all_pieces():
        if piece.chapter > LAST and piece.chapter not in begun:
            continue  # another design, of which the learner has nothing yet
        if piece.chapter in classes_for(piece.chapter) and piece.chapter in begun - shown:
            shown.add(piece.chapter)
            found.append(f"# %% given {piece.chapter}\ngiven(globals(), {piece.chapter})  # the classes it shows\n")
        if piece.id in kept:
            found.append(f"# %% {piece.id} {piece.name}{MINE}\n{kept[piece.id]}")
        elif newest[piece.name] == piece.id:
            found.append(f'# %% {piece.id} {piece.name}{OURS}\n{piece.name} = ours("{piece.id}", globals())\n')
    return "\n".join(found)


def load(text: str) -> World:
    """Run the text of such a file as a module of its own; what it defines."""
    module = ModuleType("my_minikv")
    run_own(text, "<my_minikv>", vars(module))
    return vars(module)


def run_own(text: str, file: str, world: World) -> None:
    """Run text of the learner's file quietly, in limited time; raise what it raises, or `TooLong`.

    >>> run_own("print(x / 0)", "<my_minikv>", {"x": 3})
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    """
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    done = attempt(lambda: exec(compile(text, file, "exec"), world))
    if done.error is not None:
        raise TooLong(str(done)) if isinstance(done.error, TooLong) else done.error


def keep(piece: Piece, answer: Any, world: World) -> list[str]:
    """Put a right answer into the file; what to say about it, such as why it is not there yet."""
    path = mine_path()
    if path is None:
        return []
    try:
        return _put(path, partial(_with, piece, kept_texts(piece.name, answer, world, piece.chapter)))
    except Exception as error:  # the answer passes all the same
        _renew_failed(piece, "")
        return [f"  Not saved yet: {error}."]


def keep_failed(piece: Piece, answer: Any, world: World) -> None:
    """Put a failing answer at the end of the file, in place of the one before, unless one of the piece has passed."""
    if callable(answer):
        with contextlib.suppress(Exception):  # nobody waits for it, so what cannot be kept is left out
            _renew_failed(piece, "\n\n\n".join(kept_texts(piece.name, answer, world, piece.chapter).values()))


def _renew_failed(piece: Piece, own: str) -> None:
    """Put `own` in the place of the last failing answer to a piece; an empty one takes that out."""
    if (path := mine_path()) is None or len(own) > _LONGEST_FAILED:
        return
    with contextlib.suppress(Exception), locked(path, 1.0):
        old = _text_of(path)
        rest, failed = _taken_out(old or assembled({}))
        if own or piece.id in failed:
            new = _with_failed(rest, {**failed, piece.id: own})
            replace(path, new)


def _with_failed(text: str, failed: Mapping[str, str]) -> str:
    """A file with these failing answers at its end, but for pieces of which it has one that passed."""
    kept, found = kept_sections(text), [text.rstrip() + "\n"]
    for piece in all_pieces():
        lines = lines_of(failed.get(piece.id, "")) if piece.id not in kept else [""]
        if lines != [""] and not any(line.startswith(("%%", _END[2:])) for line in lines):  # that would end it
            own = "".join(f"# {line}\n" if line else "#\n" for line in lines)
            found.append(f"# %% {piece.id} {piece.name}{FAILED}\n{own}{_END}\n")
    return "\n".join(found) if len(found) > 1 else text


def bring(path: Path, text: str) -> list[str]:
    """Put a file that the learner kept elsewhere in the place of this one; what to say about it."""
    kept = {**kept_sections(text), **failed_sections(text)}
    if not kept:
        return [f"  Nothing has changed: no section of this file is marked as yours, so it isn't a {path.name}."]
    said = f"  {path.name} is restored, with {', '.join(kept)}. Run the first code cell again to use them."
    return [said, *_put(path, lambda old: text)]


def _put(path: Path, new_of: Callable[[str], str]) -> list[str]:
    """Give the file the text that `new_of` makes of the old one; what to say about what that replaces."""
    with locked(path):
        old = _text_of(path)
        before, failed = _taken_out(old)
        new, newer = _taken_out(new_of(old))
        new = _with_failed(new, {**failed, **newer})
        beside = keep_older(path, before, new, assembled({}))
        replace(path, new)
    return [f"  Your previous version is saved in {beside.parent.name}/{beside.name}."] if beside else []


def _with(piece: Piece, texts: dict[str, str], old: str) -> str:
    """The new text of the file: with what waits too if that fits, else without it."""
    session.waiting.pop(piece.id, None)
    try:
        kept = _as_texts({id: text for id, text in kept_sections(old).items() if id != piece.id})
        with contextlib.suppress(NotKeptError):
            text = _fitted(piece, {**kept, **session.waiting, piece.id: texts})
            session.waiting.clear()
            return text
        return _fitted(piece, {**kept, piece.id: texts})
    except NotKeptError:
        session.waiting[piece.id] = texts
        raise


def line_in_file(id: str, line: int | None) -> int:
    """Return the number in the learner's file of a line of one of its sections."""
    found = sections(_text_of(mine_path()))
    first = next((s.line for s in found if s.id == id and s.remark.rstrip() == MINE), 1)
    return first + (line or 1) - 1


def _as_texts(kept: Mapping[str, str]) -> dict[str, dict[str, str]]:
    found = {}
    for id, text in kept.items():
        try:
            found[id] = definitions(text)
        except SyntaxError as error:
            line = line_in_file(id, error.lineno)
            raise NotKeptError(f"line {line} of the file, in section {id}, has a syntax error: {error.msg}") from None
    return found


def _fitted(newest: Piece, wanted: Mapping[str, dict[str, str]]) -> str:
    """Return the file with these sections; `NotKeptError` where two of them disagree, or one does not pass in it."""
    homes: dict[str, str] = {}
    kept = {}
    for id, texts in sorted(wanted.items()):
        own = []
        for name, text in texts.items():
            other = homes.get(name)
            if other is None or name == section_of(id).name:
                homes[name] = id
                own.append(text)
            elif wanted[other][name] != text:
                raise NotKeptError(f"`{name}` is also defined in {other}, differently. Give this one another name")
        kept[id] = "\n\n\n".join(own) + "\n"
    text = assembled(kept)
    for id, found in kept_sections(text).items():
        if found.rstrip() != kept[id].rstrip():
            raise NotKeptError(f"a line of {id} starts with `# %%`, which marks a section. Change that line")
    try:
        _prove(newest, text, kept)
    except (Exception, TooLong) as error:
        if isinstance(error, NotKeptError):
            raise
        raise NotKeptError(f"my_minikv.py does not run on its own: {type(error).__name__} ({error})") from None
    return text


def _prove(newest: Piece, text: str, kept: Mapping[str, str]) -> None:
    """Raise `NotKeptError` if one of the learner's pieces does not pass when the file runs on its own."""
    world = load(text)
    for id, own in kept.items():
        piece = find_piece(id)
        assert piece is not None
        if (found := judge(piece, world_with(piece.name, own, world), thorough=False)) is not None:
            added = "" if id == newest.id else f" with your {newest.id} {newest.name}"
            said = f"when my_minikv.py runs on its own{added}, {id} {piece.name} fails on this case"
            raise NotKeptError(f"{said}: {found.words}")


def world_with(name: str, own: str, world: World) -> World:
    """`world` with one of the learner's sections run in it, which must define `name`."""
    found = {key: value for key, value in world.items() if key != name}
    run_own(own, f"<my_minikv {name}>", found)  # not the file: its lines are others
    if name not in found:
        raise NotKeptError(f"its section does not define `{name}`")
    return found


def recalled() -> dict[str, str]:
    """The learner's sections that are in the file, by id; an unreadable file is reported, and has none."""
    path = mine_path()
    try:
        return kept_sections(_text_of(path))
    except (OSError, ValueError) as error:
        print(f"  {path} can't be read, so the package's versions are used: {error}")
        return {}
