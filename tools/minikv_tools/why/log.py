"""A log of requests: which places break the prefix, how much text is computed again for it, and what they look like."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable
from os import PathLike, fspath

from minikv.files import FileName
from minikv.traffic.trace_tree import PrefixTree
from minikv_tools.bodies import Body
from minikv_tools.exports import RequestLog, log_lines
from minikv_tools.logs import ABSENT, conversation_of, field_of
from minikv_tools.usage import JsonObject, objects_in
from minikv_tools.why.bills import Bills, LogObjects
from minikv_tools.why.breaks import Break, Breaks, LoggedRequest, Turns, general_place
from minikv_tools.why.changes import apart
from minikv_tools.why.fixes import BreakingPlace, Fixes, Gains, Share, best_fix
from minikv_tools.why.log_report import LogReport
from minikv_tools.why.rewrites import ALL
from minikv_tools.why.symbols import LEAST, SPREAD, Cause, tail_change
from minikv_tools.why.texts import shared_length
from minikv_tools.why.verdicts import read_verdict, response_id

LARGEST_TREE = 2**30  # bytes of text that is not shared
_SAMPLE, _NOTHING = 2**17, (0, 0)  # characters
_INSIDE = 10  # breaks between conversations for each in one, of a block that differs by user
_CAUSES = 24  # places that are looked for in one request


def survey(
    log: FileName | Iterable[JsonObject | str | bytes], name: str = "log", by: str = "", sessions: bool = True
) -> LogReport:
    """Read a log of requests, and find where each one parts from the one that it continues or is most like.

    `log` is the name of a file, or the entries: objects, or lines of JSON. `by` is a field of the entries, with dots
    between its names, by which the totals are told apart. Without `sessions`, fields such as `session_id` are ignored.
    Raises `TraceError` where no line holds a request, or none has that field, and where more than one line in a
    hundred cannot be read.

    >>> log = [{"prompt": f"It is 14:0{n}. Be brief. Say {n * n * n} words."} for n in range(4)]
    >>> [(place.place, place.kind, place.breaks) for place in survey(log).places]
    [('prompt', 'clock', 3), ('prompt', 'number', 3)]
    """
    name = fspath(log) if isinstance(log, (str, PathLike)) else name
    work, paused = _Survey(name, by, sessions), gc.isenabled()
    gc.disable()  # the work makes no cycles, and a collection passes over all that is kept
    try:
        for entry, body in work.report.log.requests(log_lines(log)):
            work.take(entry, body)
            if work.report.size - work.report.reused > LARGEST_TREE:
                work.report.unread = True
                break
        return work.close()
    finally:
        if paused:
            gc.enable()


class _Survey:
    """The work of `survey`, request by request."""

    def __init__(self, name: str, by: str, sessions: bool = True):
        self.report, self._by, self._named = LogReport(log=RequestLog(name)), by, False
        self._sessions = sessions
        self._before: LoggedRequest | None = None
        self._received: dict[str, tuple[LoggedRequest, LoggedRequest | None, float]] = {}  # by SGLang, and not finished
        self._responses = dict[str, int]()  # of the id of each: the number of its request
        self._turns, self._breaks, self._fixes, self._bills = Turns(), Breaks(), Fixes(), Bills()
        self._first: dict[int, int] = {}  # by what prompts begin with: the latest one
        self._latest: dict[str, list[int]] = {}  # of the nodes of each tree: the latest request through each
        self._places: dict[Cause, BreakingPlace] = {}

    def take(self, entry: JsonObject, body: Body | None) -> None:
        """One request of the log, or the end of one."""
        rid, said = str(entry.get("rid", "")), [*objects_in(entry)]
        if body is None:
            if came := self._received.pop(rid, None):
                self._bills.add(entry, said, *came)
            return
        report, session = self.report, conversation_of(entry) if self._sessions else None
        turn = LoggedRequest(report.requests, report.log.line, body)
        self._before = before = self._turns.before(turn, session)
        if before and before.root == turn.root and not apart(before.items, turn.items)[0]:
            turn.same, turn.size, turn.end = len(before.items), before.size, before.end
        reused, latest = self._insert(turn)
        report.add(1, turn.size, reused, 0)
        report.sample += turn.text[: max(0, _SAMPLE - len(report.sample))]
        like = self._like(turn, latest)
        came = turn, like, reused / max(1, turn.size)
        self._received.update({rid: came} if rid else {})
        self._bills.add(entry, said, *came)
        self._judge(said, turn, like)
        self._compare(like, turn, reused)
        group = field_of(entry, self._by) if self._by else ""
        self._named = self._named or group != ABSENT
        self._fixes.add(turn, reused, group, before.number if before else None)
        self._turns.add(turn, session)

    def _like(self, turn: LoggedRequest, latest: int | None) -> LoggedRequest | None:
        """The request to compare one with: that which it continues, which shares the most, or which begins alike."""
        begins = [item.text for item in turn.items[:1]], [item.name for item in turn.items if item.part != "messages"]
        keys = [hash(tuple(begin)) for begin in begins]
        others = [self._turns.get(number) for number in (latest, *map(self._first.get, keys))]
        self._first.update(dict.fromkeys(keys, turn.number))
        return self._before or next(filter(None, others), None)

    def _judge(self, said: LogObjects, turn: LoggedRequest, like: LoggedRequest | None) -> None:
        """Count the provider's verdict on a request, about the one that it names, or else the one that is like it."""
        if verdict := read_verdict(said, turn.body):
            named = self._turns.get(self._responses.get(verdict.about)) if verdict.about else like
            self.report.verdicts.add(verdict, named.body if named else None, turn.body, turn.line)
        if name := response_id(said):
            self._responses[name] = turn.number

    def _insert(self, turn: LoggedRequest) -> tuple[int, int | None]:
        """Put a prompt into its tree; the bytes that it shares with earlier ones, and the latest that shares them."""
        tree = self.report.trees.setdefault(turn.apart, PrefixTree())
        latest = self._latest.setdefault(turn.apart, [-1])
        text, begin = turn.text.encode("utf-8", "surrogatepass"), turn.size
        shared, node = tree.insert(text[begin:], turn.end)
        shared, turn.size, turn.end = begin + shared, len(text), tree.ends[-1]
        found = latest[node] if shared else None
        latest += [turn.number] * (len(tree.parents) - len(latest))
        for passed in tree.path(turn.end):
            latest[passed] = turn.number
        return shared, found

    def _compare(self, like: LoggedRequest | None, turn: LoggedRequest, reused: int) -> None:
        """Find the causes by which a request parts from an earlier one: after the first, as if it were fixed."""
        if like:
            self._apart(like, turn, reused)
        if like and (turn.text.startswith(like.text) or like.text.startswith(turn.text)):
            self.report.continued += len(turn.text) > len(like.text)
        else:
            self._follow(like, turn, reused)

    def _follow(self, like: LoggedRequest | None, turn: LoggedRequest, reused: int) -> None:
        """Note each place where two requests part, and compare what follows as if it were fixed."""
        left, right = origins = (like.items if like else []), turn.items
        last = ""
        for depth in range(_CAUSES):
            left, right = apart(left, right)
            if like and right and len(left) == 1 and right[0].text.startswith(left[0].text):
                return
            head = turn.items[: -len(right)][-1:]
            found = self._breaks.between(left, right, head, last) if left and right else None
            last = found.kind if found else ""
            new = right and (not found or found.new)
            if new and self._tail(turn, len(turn.items) - len(right), depth, reused):
                return
            if not found or not like:
                return
            if not found.harmless or not depth:
                self._note(found, like, turn, depth)
            rest = None if found.harmless else self._fixes.learn(found[:2], left, right, origins, like.number)
            if rest is None:
                return
            left, right = rest

    def _apart(self, one: LoggedRequest, two: LoggedRequest, reused: int) -> None:
        """Count what both requests begin with, if the later one could not reuse it in its namespace."""
        if one.root == two.root:
            return
        shared = two.text[: shared_length(one.text, two.text)].encode("utf-8", "surrogatepass")
        if len(shared) >= reused + LEAST:
            names = {name for name, _ in one.body.namespace.items() ^ two.body.namespace.items()}
            cause = ", ".join(sorted(names)), "namespace"
            self._note(Break(*cause, (None, None)), one, two, 0)
            self._fixes.join(cause, one.root, two.root)

    def _tail(self, turn: LoggedRequest, at: int, depth: int, reused: int) -> bool:
        """Whether an item that is new has text that was sent before, after a place where it parts from that."""
        two = full = turn.items[at]
        found = self._turns.earlier(full)
        other = self._turns.get(found[0]) if found else None
        if not found or not other or other.messages(found[1]) != turn.messages(at):
            return False
        self._apart(other, turn, reused)
        left = one = other.items[found[1]]
        self._fixes.rewrites.follow(one, full)
        for deeper in range(depth, _CAUSES):
            if (change := tail_change(left, two)) is None:
                return deeper > depth
            spot = change.spots[1]
            cause = general_place(spot.place if spot else full.pieces[-1].place), change.kind
            self._note(Break(*cause, change.spots), other, turn, deeper)
            self._fixes.rewrites.learn_hidden(cause, change, (one, full), (left, two))
            if not change.rest:
                break
            left, two = change.rest
        return True

    def _note(self, found: Break, one: LoggedRequest, two: LoggedRequest, depth: int) -> None:
        """Count a break, and keep the longest prompt in which it is the first."""
        place = self._places.setdefault(found[:2], BreakingPlace(*found[:2]))
        if place.latest != two.number:
            place.breaks += 1
            place.inside += _INSIDE * (one is self._before and two.answered) - 1
        place.latest = two.number
        if (size := 0 if depth else len(two.text)) > place.most:
            place.most, place.lines, place.spots = size, (one.line, two.line), found.spots

    def close(self) -> LogReport:
        """The findings, with the places that lose the most first."""
        report = self.report
        report.log.close(report.requests, "" if self._named else self._by)
        report.sessions, report.billed = self._turns.believed, self._bills.found
        del self._turns  # which holds the most
        self._replay(self._renamed())
        for place in self._places.values():
            place.fixed.add(report.requests, report.size, report.reused, 0, 0)
        report.groups = dict(sorted(report.groups.items(), key=lambda group: (-group[1].lost, group[0])))
        found = self._places.values()
        report.places = sorted(found, key=lambda place: (-place.most_lost, -place.breaks, place.place, place.kind))
        return report

    def _renamed(self) -> dict[Cause, Cause]:
        """Put together what is one cause: a block that differs by user, and a client that ends all lines otherwise."""
        users = (cause for cause in sorted(self._fixes.by_user()) if self._places[cause].inside <= 0)
        renamed = {cause: (cause[0], "differs by user") for cause in users}
        for kind in SPREAD:
            places = sorted((-place.breaks, cause) for cause, place in self._places.items() if cause[1] == kind)
            renamed.update((cause, places[0][1]) for _, cause in places[1:])
        for cause, new in renamed.items():
            one, two = self._places.pop(cause), self._places.setdefault(new, BreakingPlace(*new))
            two.breaks += one.breaks
            if one.most > two.most:
                two.most, two.lines, two.spots = one.most, one.lines, one.spots
        return renamed

    def _replay(self, renamed: dict[Cause, Cause]) -> None:
        """Count what each cause loses, alone and with the others of its prompts; a fix that loses more is none."""
        gains: Gains = defaultdict(lambda: defaultdict(Share))
        for number, (request, causes, saved) in enumerate(self._fixes.replay(renamed)):
            size, every = max(1, request.size), saved.get(ALL, _NOTHING)[0]
            self._bills.fix(number, request.reused / size, every / size)
            self.report.groups.setdefault(request.group, Share()).add(1, request.size, request.reused, 0)
            for cause, gain in saved.items():
                gains[cause][request.group].add(0, 0, 0, *gain)
            joint = every - max((saved[cause][0] for cause in causes), default=every)
            for cause in causes if joint > 0 else ():
                self._places[cause].joint += joint
                self._places[cause].others.update(dict.fromkeys(sorted(causes - {cause}), joint))
        lost, best = best_fix(gains)
        for cause, groups in gains.items():
            for name, share in groups.items() if lost[cause] >= 0 else ():
                totals = [self.report.groups[name], self.report] if cause == best else []
                for total in [*totals, *([self._places[cause].fixed] if cause != ALL else [])]:
                    total.add(0, 0, 0, share.lost, share.extra)
