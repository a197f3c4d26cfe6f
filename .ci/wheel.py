"""The wheel as a learner gets it: in an environment of its own and an empty folder, where chapters run to their end.

python .ci/wheel.py dist/minikv-0.1.0-py3-none-any.whl         chapter 03
python .ci/wheel.py dist/minikv-0.1.0-py3-none-any.whl 00 13   others
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = ("PYTHONPATH", "MINIKV_", "JUPYTER_", "VIRTUAL_ENV")  # of the shell that runs this: the learner has none of it


def try_out(wheel: Path, chapters: list[str], folder: Path) -> None:
    """Install the wheel below `folder`, copy the notebooks as `minikv lab` does, and run these chapters."""
    venv.create(folder / "venv", with_pip=True)
    (folder / "empty").mkdir()
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(HIDDEN)}

    def run(*words: str) -> str:
        print("+", *words, flush=True)
        command = [str(python), "-m", *words]
        done = subprocess.run(
            command, cwd=folder / "empty", env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    run("pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), f"{wheel}[course]")
    course = Path(run("minikv", "lab", "--where").strip())
    assert course == folder / "empty" / "minikv-course", course
    for chapter in chapters:
        (notebook,) = course.glob(f"{chapter}_*.ipynb")
        run("jupyter", "execute", "--inplace", str(notebook))
        code = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), notebook.name
        print(f"{notebook.name}: {len(code)} cells ran, {sum(bool(cell['outputs']) for cell in code)} with outputs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        try_out(Path(sys.argv[1]).resolve(), sys.argv[2:] or ["03"], Path(name).resolve())
