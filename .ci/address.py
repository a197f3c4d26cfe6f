"""What `[tool.minikv]` says, as the outputs of a step: what needs an address is skipped while there is none.

python .ci/address.py    prints repository=https://github.com/OWNER/NAME and tag=v0.1.0, a line each
"""

from pathlib import Path

import tomllib

settings = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text("utf-8"))
for key in ("repository", "tag"):
    print(f"{key}={settings['tool']['minikv'][key]}")
