"""Questions that the small model never saw in training, and what may be said to them: in held_out.toml."""

from project import text_of, tomllib

HELD_OUT = tomllib.loads(text_of("tests/held_out.toml"))
PARAPHRASES = [tuple(pair) for pair in HELD_OUT["paraphrases"]]
OUTSIDE = HELD_OUT["outside"]
