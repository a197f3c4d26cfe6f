"""Questions that the small model never saw in training, and what may be said to them: in held_out.toml."""

from project import ROOT, tomllib

HELD_OUT = tomllib.loads((ROOT / "tests" / "held_out.toml").read_text("utf-8"))
PARAPHRASES = [tuple(pair) for pair in HELD_OUT["paraphrases"]]
OUTSIDE = HELD_OUT["outside"]
