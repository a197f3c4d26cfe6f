"""Sequences that share pages, beside a model that shares nothing: each has what was written to it, and no more."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikv import CopyOnWrite, OutOfPages

TOKENS = st.lists(st.integers(0, 1), max_size=3)


class AgainstCopies(RuleBasedStateMachine):
    """The model is a list of values for each sequence; a value says which tokens lead to it, as keys and values do."""

    at = st.integers(0, 3)

    @initialize(page_size=st.integers(1, 3), declared=st.booleans(), discovered=st.booleans())
    def begin(self, **options):
        self.cache = CopyOnWrite(12, **options)
        self.model, self.drafts, self.open_to = {}, {}, {}

    def values(self, tokens, before=()):
        return [(*before, *tokens[: end + 1]) for end in range(len(tokens))]

    def has_room(self, verb, *arguments):
        """Do it; `False`, and nothing has changed, if there is no room."""
        try:
            self.found = getattr(self.cache, verb)(*arguments)
        except OutOfPages:
            return False
        return True

    def at_least(self, tokens, most):
        """What some sequence has computed is found, as far as both sides let it be."""
        ends = [0]
        for name, values in self.model.items():
            have = min(most, self.open_to[name], self.drafts.get(name, len(values)), len(tokens))
            for end in range(0, have + 1, self.cache.page_size):
                if self.cache.tokens(name)[:end] == tokens[:end]:
                    ends.append(end)
        return max(ends)

    def one(self, at, names=None):
        """The name of a sequence, of all or of some."""
        names = names or [*self.model]
        return names[at % len(names)]

    @rule(name=at, like=at, tokens=TOKENS, prefix=st.integers(0, 6), whole=st.booleans())
    def attach(self, name, like, tokens, prefix, whole):
        """Begin a sequence, often as another does."""
        tokens = ((self.cache.tokens(like) if like in self.model else []) + tokens)[:6]
        values, prefix = self.values(tokens), min(prefix, len(tokens))
        most = 99 if self.cache.discovered else prefix if self.cache.declared else 0
        expected = self.at_least(tokens, most)
        if self.has_room("attach", name, tokens, values if whole else None, prefix):
            assert expected <= self.found <= most
            assert self.found % self.cache.page_size == 0
            self.model[name], self.open_to[name] = values if whole else values[: self.found], most
            self.drafts.pop(name, None)
            if not whole and self.has_room("append", name, tokens[self.found :], values[self.found :]):
                self.model[name] = values

    @precondition(lambda self: self.model)
    @rule(at=at, new=at)
    def fork(self, at, new):
        name = self.one(at)
        if new not in self.model:
            self.cache.fork(name, new)
            self.model[new] = self.model[name][: self.drafts.get(name)]
            self.open_to[new] = self.open_to[name]

    @precondition(lambda self: len(self.model) > len(self.drafts))
    @rule(
        verb=st.sampled_from(["append", "draft", "draft", "write", "write"]),
        at=at,
        start=st.integers(0, 5),
        tokens=TOKENS,
    )
    def put(self, verb, at, start, tokens):
        name = self.one(at, [name for name in self.model if name not in self.drafts])
        model = self.model[name]
        start = min(start, len(model)) if verb == "write" else len(model)
        tokens = tokens[: len(model) - start] if verb == "write" else tokens
        values, end = self.values(tokens, model[start - 1] if start else ()), start + len(tokens)
        if self.has_room(verb, name, *[start] * (verb == "write"), tokens, values):
            if verb == "draft":
                self.drafts[name] = start
            elif tokens and end < len(model):
                self.open_to[name] = min(self.open_to[name], end)
            model[start:end] = values

    @precondition(lambda self: self.model)
    @rule(at=at, keep=st.integers(0, 9))
    def cut(self, at, keep):
        """Settle a draft, truncate a sequence, or end it."""
        name = self.one(at)
        verb, begin = "settle" if name in self.drafts else "truncate", self.drafts.pop(name, 0)
        if keep == 9:
            self.cache.detach(name)
            del self.model[name]
            return
        keep = min(keep, len(self.model[name]) - begin)
        getattr(self.cache, verb)(name, keep)
        del self.model[name][begin + keep :]

    @invariant()
    def every_sequence_has_what_was_written_to_it(self):
        if hasattr(self, "cache"):
            self.cache.check()
            assert self.cache.names() == [*self.model]
            for name, values in self.model.items():
                assert self.cache.get(name) == values
                assert self.cache.draft_length(name) == len(values) - self.drafts.get(name, len(values))
