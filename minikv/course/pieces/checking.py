"""`check`: judge an answer, keep it if it passes, and return the function that the chapter continues with."""

from __future__ import annotations

import sys
from functools import cache, partial
from traceback import walk_tb
from typing import Any

from minikv.course.pieces.cost import work_of
from minikv.course.pieces.guessing import come_back
from minikv.course.pieces.hosted import advice_on_saving, begin_in_browser, move_file
from minikv.course.pieces.hunt import Hunt, judge_hunt
from minikv.course.pieces.mine import keep, keep_failed, line_in_file, numbering_of, recalled, run_own, world_with
from minikv.course.pieces.mistakes import hint_for, hint_for_exercise
from minikv.course.pieces.origin import lines_below_raise, namespace_of
from minikv.course.pieces.piece import Piece, all_pieces, find_exercise, find_piece, pieces_for
from minikv.course.pieces.record import NOT_ATTEMPTED, RIGHT, WRONG, reached, remember, sign
from minikv.course.pieces.record import set_old_aside as set_old_files_aside
from minikv.course.pieces.showing import both_films, display_film
from minikv.course.pieces.trial import Difference, Verdict, cases_tried, judge
from minikv.course.pieces.worlds import ipython, rebound, reference_world, session, world_for
from minikv.engine import World, classes_for, engine_files, given, last_for, ours, pieces_up_to
from minikv.testing.attempt import TooLong, attempt, error_text, held, is_judges

CANNOT = "can't be judged because of"
_OUR_ERROR = "an error in `check`, not in your code"
_JUDGES = "minikv.course.pieces", "minikv.testing"  # the modules that judge
_STATE = "don't keep state between calls"
_EARLIER = "Your earlier version, which passed, stays in use."


def begin(chapter: int, namespace: World) -> None:
    """Make a notebook ready: our pieces up to its chapter, the classes around them, and what the learner has of them.

    Cells may then run in any order. The set-up cell of each chapter calls it with its `globals()`. It prints a few of
    the predictions that were missed in earlier chapters, and which pieces come from the learner's file.

    >>> begin(3, here := {}); here["split"].__name__, "lock" in here
    ('split', False)
    """
    session.begin(chapter)
    begin_in_browser()
    set_old_files_aside(numbering_of)
    for line in come_back(chapter):
        print(line)
    for each in classes_for(chapter):
        if each <= last_for(chapter):
            given(namespace, each)
    for section in pieces_up_to(chapter):
        namespace[section.name] = ours(section.id, namespace)
    _watch_cells()
    kept = recalled()
    for piece in pieces_for(chapter):
        namespace[piece.name] = ours(piece.id, namespace)  # chapter 04 has a `split` of its own
        if piece.id in kept:
            _recall(piece, kept[piece.id], namespace)
    if session.accepted:
        yours = ", ".join(piece.name for piece in pieces_for(chapter) if piece.id in session.accepted)
        print(f"From your my_minikv.py: {yours}. The other pieces are the package's.")


def _recall(piece: Piece, text: str, namespace: World) -> None:
    """Let a piece of the learner's file run, if it is still right."""
    try:
        world = world_with(piece.name, text, namespace)
        found = judge(piece, world_for(piece, world[piece.name], world), thorough=False)
        why = found.words if found else ""
        if not why:
            run_own(text, f"<my_minikv {piece.id}>", namespace)
            session.accepted[piece.id] = namespace[piece.name]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a section that was edited by hand may do anything
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, SyntaxError):
            why = f"SyntaxError in line {line_in_file(piece.id, error.lineno)} of my_minikv.py: {error.msg}"
    if why:
        session.aside.add(piece.id)
        namespace[piece.name] = ours(piece.id, namespace)
        said = f"Your {piece.id} {piece.name} no longer passes, so the package's version is used for now"
        print(f"  {said}: {why:.200}")


def _watch_cells() -> None:
    """In IPython, look at how each cell ends; it registers a function once."""
    if (shell := ipython()) is not None:
        shell.events.register("post_run_cell", name_pieces)


def name_pieces(result: Any) -> None:
    """After a cell that ended in an error of the engine: say which of the learner's pieces it may come from.

    `check` may have missed a mistake, and then the error is raised far from it, in code that is not the learner's.
    """
    error = getattr(result, "error_in_exec", None)
    codes = [frame.f_code for frame, _ in walk_tb(error.__traceback__)] if error is not None else []
    own = {id: getattr(answer, "__code__", None) for id, answer in session.accepted.items()}
    is_engine = isinstance(error, AssertionError) or any(code.co_filename in engine_files() for code in codes)
    raised_in = [id for id, code in own.items() if code in codes]
    if raised_in or (is_engine and own):
        pieces = ", ".join(f"{id} {session.accepted[id].__name__}" for id in raised_in or sorted(own))
        said = "This error came through your own pieces" if raised_in else "Your own pieces run here"
        print(f"{said}: {pieces}. If you did not change the cell, look at them first.")


def check(label: str, answer: Any = None) -> Any:
    """Judge an answer to a piece or an exercise, named as in the notebook, and print one line; never raises.

    The line is □ not attempted, ✗ with a small failing case, or ✓. For a piece it returns the function that the
    chapter continues with: this answer if it passes (it is then saved), the newest that did, or the package's version.
    It stops an endless answer after 3 seconds, but not a call into C (`sum(itertools.count())`): restart the kernel.
    What an answer replaces in the judge's modules is put back. An error in the judge's own code refuses no answer.

    >>> def split(node, at):
    ...     return node
    >>> split = check("3.3 split", split)  # doctest: +ELLIPSIS
    ✗ 3.3 split: split([1 2 3 4 5] in slots 7 3-4 9 0, 3) returns the old root.children[1]; expected: the new Node ...
      Stuck? Try hint("3.3"). Call it again for a stronger hint.
    >>> kept = check(split)  # without its label it is not judged, and stays what it is
    ✗ the first argument must be a label that starts with a number: check("4.4 split", split)
    >>> kept is split
    True
    """
    task = _task(label, answer)
    if task is None:
        return answer if isinstance(label, str) else label
    namespace, is_piece = namespace_of(answer), isinstance(task, Piece) and task.reference is None
    verdict = verdict_on(task, answer, namespace)
    name = "" if not is_piece and verdict.words.startswith(task.name) else f"{task.name}: "
    print(f"{sign(verdict.mark)} {task.id} {name}{verdict.words}", *verdict.notes, sep="\n")
    if verdict.film is not None:
        display_film(verdict.film)
    if verdict.mark != NOT_ATTEMPTED:
        remember(task.id, verdict.mark)
    if not is_piece:
        return None
    if verdict.mark == WRONG:
        keep_failed(task, answer, namespace)
    return session.accepted[task.id] if task.id in session.accepted else ours(task.id, namespace)


def verdict_on(task: Any, answer: Any, namespace: World) -> Verdict:
    """Judge an answer to a piece, an exercise or a hunt, as `check` does; never raises, but for Ctrl-C."""
    is_piece = isinstance(task, Piece) and task.reference is None
    judges = [vars(module) for name, module in list(sys.modules.items()) if name.startswith(_JUDGES)]
    try:
        with held(judges):
            return _judged(task, answer, namespace) if is_piece else _exercised(task, answer)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever an answer manages to break, the notebook continues
        said = f"{type(error).__name__} ({error_text(error)})"
        if not is_judges(error):
            return Verdict(WRONG, f"{CANNOT} {said}")
        if is_piece:
            session.accepted[task.id] = answer
        return Verdict(NOT_ATTEMPTED, f"{CANNOT} {_OUR_ERROR}, so your answer is used as it is: {said}")


def _task(label: Any, answer: Any) -> Any:
    """The piece, the exercise or the hunt with this label; where it names nothing, the one that was probably meant."""
    if isinstance(label, str) and (piece := find_piece(label)):
        return piece
    named = answer if isinstance(answer, str) else label if isinstance(label, str) else getattr(label, "__name__", "")
    meant = [piece for piece in all_pieces() if piece.name == str(named).strip()]
    if meant or not isinstance(label, str):
        example = f"{meant[-1].id} {meant[-1].name}" if meant else "3.3 split"
        said = f'a label that starts with a number: check("{example}", {example.split()[1]})'
        print(f"{sign(WRONG)} the first argument must be {said}")
        return None
    try:
        return find_exercise(label)
    except LookupError as error:
        print(f"{sign(WRONG)} {error}")
        return None


def _exercised(task: Any, answer: Any) -> Verdict:
    """The verdict on an answer to an exercise or a hunt, in one line."""
    if isinstance(task, Hunt):
        is_right, words = judge_hunt(task, answer)
        return Verdict(NOT_ATTEMPTED if is_right is None else RIGHT if is_right else WRONG, words)
    world = world_for(task, answer, {})
    found = judge(task, world)
    if found is None:
        return Verdict(RIGHT, "correct in every case tried")
    if not found.attempted:
        return Verdict(NOT_ATTEMPTED, "not attempted yet")
    hint = hint_for_exercise(task, world, found) if found.is_constant else _STATE
    return Verdict(WRONG, found.words + (f". Hint: {hint}" if hint else ""))


def _judged(piece: Piece, answer: Any, namespace: World) -> Verdict:
    if not callable(answer):
        kind = "nothing" if answer is None else f"a value of type {type(answer).__name__}"
        call = f'check("{piece.id} {piece.name}", {piece.name})'
        return Verdict(WRONG, f"you passed {kind}. Pass the function itself: {call}")
    if getattr(getattr(answer, "__code__", None), "co_filename", None) in engine_files():
        words = f"That is the course's own `{piece.name}`. Define your own `{piece.name}` in this cell."
        return Verdict(NOT_ATTEMPTED, f"not attempted yet. {words}", _earlier(piece))
    namespace = getattr(answer, "__globals__", namespace)  # of its module, where it comes from one
    world = world_for(piece, answer, namespace, session.accepted)
    found = judge(piece, world)
    if found is not None:
        return _not_right(piece, answer, world, found)
    if too_slow := _too_slow(piece, world_for(piece, answer, namespace)):  # among our other pieces
        why = piece.cost.why if piece.cost else ""
        return Verdict(WRONG, f"correct, but {too_slow}. Hint: {why}", _earlier(piece), hint=f": {why}")
    session.accepted[piece.id] = answer
    notes = [*keep(piece, answer, namespace), f"  {piece.places}", *advice_on_saving()]
    return Verdict(RIGHT, f"correct in {cases_tried(piece)} cases", notes)  # without a count, which differs by Python


def _too_slow(piece: Piece, world: World) -> str:
    """The work of an answer in a large case, in words, where it is too much."""
    if piece.cost is None:
        return ""
    counted = attempt(partial(work_of, piece, world))
    if counted.error is not None:
        if is_judges(counted.error):
            raise counted.error
        return f"a large case fails: {counted}"
    for mine, enough in zip(counted.value, _enough(piece)):
        if mine > piece.cost.most * enough:
            return f"too slow: {mine} {piece.cost.unit} where {enough} are enough"
    return ""


@cache
def _enough(piece: Piece) -> list[int]:
    """The work of our answer."""
    return work_of(piece, reference_world(piece))


def _not_right(piece: Piece, answer: Any, world: World, found: Difference) -> Verdict:
    if not found.attempted:
        if lines_below_raise(answer):
            words = "delete the line `raise NotImplementedError`; your code below it never runs."
            return Verdict(WRONG, words, _earlier(piece))
        runs = _EARLIER if piece.id in session.accepted else "The chapter continues with the package's version."
        return Verdict(NOT_ATTEMPTED, f"not attempted yet. {runs}")
    if not found.is_constant:
        return Verdict(WRONG, f"{found.words}. D{_STATE[1:]}.", _earlier(piece), hint=f": {_STATE}")
    said, is_all = hint_for(piece, world, found)
    notes = [f"  It printed: {found.printed.strip()[:200]}"] if found.printed.strip() else []
    if not is_all and not isinstance(found.error, NameError):
        notes.insert(0, f'  Stuck? Try hint("{piece.id}"). Call it again for a stronger hint.')
    if said:
        notes.insert(0, f"  Hint{said}.")
    film = None if isinstance(found.error, TooLong | RecursionError) else both_films(piece, world, found)
    return Verdict(WRONG, found.words, [*notes, *_earlier(piece)], film, said)


def _earlier(piece: Piece) -> list[str]:
    return [f"  {_EARLIER}"] if piece.id in session.accepted else []


def mine(way: str = "") -> None:
    """Print whose version of each piece runs: yours, or the package's until yours passes.

    On Colab and in a browser `mine("download")` saves your `my_minikv.py` on your machine; "upload" brings it back.

    >>> mine()  # doctest: +ELLIPSIS
    piece               version
    ...
    >>> mine("save")
    ✗ mine("save") does not exist. Use mine(), mine("download") or mine("upload").
    """
    if way:
        move_file(way)
        return
    kept = recalled()
    shown = [piece for piece in all_pieces() if piece.chapter in reached([*kept, *session.accepted])]
    wide = max((len(piece.name) for piece in shown), default=0)
    print(f"{'piece':{wide + 4}} version")
    for piece in shown:
        whose = "mine" if piece.id in session.accepted or piece.id in kept else "the package's"
        whose = "mine, but it no longer passes" if piece.id in session.aside - set(session.accepted) else whose
        print(f"{piece.id} {piece.name:{wide}} {whose}")


def own_pieces() -> list[str]:
    """The pieces that run in this session as the learner wrote them, by id.

    >>> begin(3, {}); own_pieces()
    []
    """
    return sorted(session.accepted)


def accepted(piece: str, world: World) -> Any:
    """The learner's function for a piece over `world`, or ours.

    >>> accepted("5.1", {}).__name__
    'link'
    """
    found = session.accepted.get(piece)
    return ours(piece, world) if found is None else rebound(found, world)
