"""`make lab` and `make test` fetch what this machine needs: which PyTorch, from where, and what they say first."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from golden_text import replay, sections
from project import text_of, write

GOLDEN, MAKE = "make.txt", shutil.which("make")
pytestmark = pytest.mark.skipif(not MAKE, reason="there is no make on this machine")

# Stands for the Python of the virtual environment: it notes what it is asked, and has no index unless `REAL` is set.
PYTHON = """#!/bin/sh
echo "$*" >> asked.txt
case "$*" in
  *"index versions"*|*--no-deps*) [ "$REAL" ] && exec "{python}" "$@"; exit 1 ;;
esac
"""
DEAD = "http://127.0.0.1:9"  # where nobody answers
OURS = (
    "PIP_",
    "MAKE",
    "MFLAGS",
    "TORCH",
    "GPU",
    "VENV",
    "PYTHON",
    "PYENV",
    "UV",
)  # of the make that runs this test
T4, SILENT = "#!/bin/sh\necho 'GPU 0: NVIDIA T4'\n", "#!/bin/sh\n"  # what nvidia-smi does
UV = '#!/bin/sh\necho "uv $*" >> asked.txt\n'


class Machine:
    """A copy of the Makefile in a folder of its own, with an empty virtual environment, and with these programs."""

    def __init__(self, folder, **programs):
        self.folder = folder
        names = "Makefile", "constraints.txt", "pyproject.toml", "tools/pyproject.toml"
        write(folder, {name: text_of(name) for name in names})
        (folder / "programs").mkdir()
        for tool in ("sh", "grep", "touch", "rm", "cat", "mv"):
            (folder / "programs" / tool).symlink_to(shutil.which(tool))
        self.program(".venv/bin/python", PYTHON.format(python=sys.executable))
        for name in ("minikv", "ruff", "mypy", "codespell"):
            self.program(f".venv/bin/{name}", SILENT)
        for name, text in programs.items():
            self.program(f"programs/{name.replace('_', '-')}", text)

    def program(self, path, text):
        write(self.folder, {path: text})
        (self.folder / path).chmod(0o755)

    def make(self, words, index=None, links=""):
        """What pip was asked, one line a call; and `done`, what the Python was asked, `said` and `status`."""
        (self.folder / "asked.txt").write_text("", "utf-8")
        settings = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        settings |= {"PATH": str(self.folder / "programs"), "HOME": str(self.folder), "REAL": "1" * bool(index),
                     "PIP_CONFIG_FILE": os.devnull, "PIP_TARGET": str(self.folder / "packages"),
                     "PIP_FIND_LINKS": links}  # fmt: skip
        done = subprocess.run([MAKE, *words.split(), f"TORCH_INDEX={index or DEAD}"], cwd=self.folder, env=settings,
                              capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        self.status = done.returncode
        self.said = done.stdout + done.stderr
        self.done = (self.folder / "asked.txt").read_text("utf-8").splitlines()
        pip = re.compile("-m pip --disable-pip-version-check (.*)|(uv .*)")
        return ["".join(found.groups("")) for found in map(pip.fullmatch, self.done) if found]


@pytest.fixture
def index(tmp_path):
    """An index with one tiny wheel, which calls itself PyTorch's CPU build."""
    name, about = "torch-2.13.0+cpu-py3-none-any.whl", "torch-2.13.0+cpu.dist-info"
    folder = tmp_path / "index/torch"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("torch/__init__.py", "__version__ = '2.13.0+cpu'\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{name.replace("+", "%2B")}">{name}</a>', "utf-8")
    return folder.parent.as_uri()


ASKS = f"index versions torch --index-url {DEAD} --retries 0 --timeout 5"  # whether the index has this version
PIP, INTO = "-c constraints.txt", "uv pip install --python .venv/bin/python"
COURSE, LIGHT = f"install {PIP} -e .[course,serving]", f"install {PIP} -e .[course]"
ANY_TORCH, DEV = (f"install --no-compile {PIP} {what}" for what in ("torch", "-e .[dev] -e ./tools[sweep]"))
# What make itself adds: the commands that it runs, and that a rule failed.
ECHO = re.compile(r"(rm -f|touch|make(\[\d+\])?:|\.venv/|/\S+/uv) .*|\.venv/.*|Makefile:\d+: \*+ ")
PROGRAMS = {"nvidia_smi": SILENT, "uv": UV}


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_what_a_machine_needs_is_said_and_installed_once_and_again_if_it_changes(title, tmp_path):
    """What make is told, asks of Python or uv, and says; `edit` changes what the tools need."""
    machine, tools = (
        Machine(tmp_path, **{name: PROGRAMS[name] for name in title.partition(" @ ")[2].split()}),
        tmp_path / "tools",
    )

    def act(words):
        if words == "edit":
            later = (tools / "pyproject.toml").stat().st_mtime + 60
            os.utime(tools / "pyproject.toml", (later, later))
            return []
        machine.make(words)
        asked = [re.sub("-m pip \\S+ |(?<= -n )\\d+", "", line) for line in machine.done]
        said = filter(None, (ECHO.sub("", line) for line in machine.said.splitlines()))
        return [*asked, *said, f"status {machine.status}"]

    replay(GOLDEN, title, act)
    assert "--quiet" not in text_of("Makefile")  # pip shows its progress


@pytest.mark.parametrize("uv", [{}, {"uv": UV}], ids=["pip", "uv"])
def test_without_a_gpu_the_cpu_build_comes_from_pytorchs_own_index(uv, index, tmp_path):
    machine, own = Machine(tmp_path, **uv), f"--no-deps --index-url {index} torch==2.13.0"
    asks, torch, course = machine.make("lab", index)
    assert asks == ASKS.replace(DEAD, index)  # pip's question, which uv does not have
    if uv:
        assert (torch, course) == (f"{INTO} {own}", f"{INTO} {COURSE.removeprefix('install ')}")
    else:
        assert (torch, course) == (f"install --no-compile {own}", COURSE)
        said = "CPU build: 0.2 GB to fetch.*Successfully installed torch-2.13.0\\+cpu"
        assert re.search(said, machine.said, re.DOTALL)
        assert (tmp_path / "packages/torch/__init__.py").exists()


@pytest.mark.parametrize("there", ["another version", "nobody, and a wheel that lies ready elsewhere", "half a wheel"])
def test_what_the_index_lacks_comes_from_pip_and_a_download_that_breaks_off_does_not(there, index, tmp_path):
    """It would turn into the large build; and a wheel elsewhere does not answer for the index."""
    machine, pins, links = Machine(tmp_path), tmp_path / "constraints.txt", ""
    if there == "another version":
        pins.write_text(pins.read_text("utf-8").replace("torch==2.13.0", "torch==9.9.9"), "utf-8")
    elif there == "half a wheel":
        (wheel,) = (tmp_path / "index/torch").glob("*.whl")
        wheel.write_bytes(b"half a wheel")
    else:
        index, links = DEAD, f"{index}/torch"
    asked = machine.make("lab", index, links)
    if there == "half a wheel":
        assert (ANY_TORCH in asked, machine.status == 0) == (False, False)
    else:
        assert asked[1:] == [ANY_TORCH, COURSE]
        assert ("no torch 9.9.9 for this Python" in machine.said) == (there == "another version")
        assert "cannot be reached" in machine.said


# -- what runs once all is there --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("types", "tests"), [(0, 0), (1, 0), (0, 1)])
def test_make_test_fails_where_the_types_or_the_tests_do_and_shows_the_types_last(types, tests, tmp_path):
    machine = Machine(tmp_path)
    machine.program(".venv/bin/mypy", f"#!/bin/sh\necho said of types\nexit {types}\n")
    machine.program(
        ".venv/bin/python",
        PYTHON.replace("esac", f"  *pytest*) echo of tests; exit {tests} ;;\nesac"),
    )
    machine.make("test")
    assert (machine.status != 0) == (types + tests > 0)
    assert re.search("(?s)of tests.*of types", machine.said)


@pytest.mark.parametrize("finds", [0, 1])
def test_make_gpu_runs_what_waits_for_a_gpu_where_pytorch_finds_one(finds, tmp_path):
    machine = Machine(tmp_path, nvidia_smi=T4)
    machine.program(".venv/bin/python", PYTHON.replace("esac", f"  *is_available*) exit {1 - finds} ;;\nesac"))
    assert machine.make("gpu") == [ANY_TORCH, DEV]
    assert machine.status == (0 if finds else 2)
    assert ("can use, and it finds none: is the driver too old?" in machine.said) != finds
    begin = next(at for at, line in enumerate(machine.done) if "torch.cuda.is_available()" in line)
    assert machine.done[begin + 1 :] == finds * [
        "-m pytest -q -rs -m gpu tests",
        "-m pytest -q --nbval notebooks/06_gpu_kv_copying.ipynb",
        "assets/copying.py --device cuda --save assets/copy.json",
        "assets/chatting.py --device cuda --save assets/engine.json",
        "notebooks/build.py 06",
    ]


# -- which Python -----------------------------------------------------------------------------------------------------

# Stands for the Python that makes the virtual environment, whose place one that does as `pip` says takes.
MAKER = '#!/bin/sh\ncase "$*" in\n  *venv*) mv ready .venv/bin/python ;;\nesac\n'


@pytest.mark.parametrize("status", [0, 1])
def test_a_new_environment_gets_a_newer_pip_where_one_can_be_had(status, tmp_path):
    machine = Machine(tmp_path, python3=MAKER)
    machine.program("ready", PYTHON.replace("esac", f'  *"pip>=25"*) exit {status} ;;\nesac'))
    (tmp_path / ".venv/bin/python").unlink()
    assert machine.make("lab TORCH=0") == ["install --retries 0 --timeout 5 pip>=25", LIGHT]
    assert (machine.status, "No newer pip can be reached" in machine.said) == (0, bool(status))
    assert machine.make("lab TORCH=0") == []


# A shim of pyenv's: the program is there, and says that no version behind it is active.
SHIM = """#!/bin/sh
echo "pyenv: python3.12: command not found" >&2
echo "The 'python3.12' command exists in these Python versions: 3.12.1" >&2
exit 127
"""


@pytest.mark.parametrize(
    ("words", "there", "said"),
    [
        ("lab PYTHON=python3.12",
         {".pyenv/versions/3.9.18/bin/python": "3.9", ".pyenv/versions/3.12.1/bin/python": "3.12",
          "programs/python3.13": "3.13"},
         ["python3.12 cannot be run: pyenv: python3.12: command not found",
          "The 'python3.12' command exists in these Python versions: 3.12.1",
          "These can:", "  make lab PYTHON=python3.13   # Python 3.13",
          "  make lab PYTHON={}/.pyenv/versions/3.12.1/bin/python   # Python 3.12"]),
        ("test PYENV_ROOT={}/elsewhere", {"elsewhere/versions/3.13.0/bin/python": "3.13"},
         ["python3 is Python 3.9, and the course needs 3.11 or newer.",
          "These can:", "  make test PYTHON={}/elsewhere/versions/3.13.0/bin/python   # Python 3.13"]),
        ("lab PYTHON=./none", {},
         ["./none cannot be run: .*not found",
          "No other was found: python3, python3.11 to python3.14 and those of pyenv were tried."]),
    ],
)  # fmt: skip
def test_a_python_that_cannot_be_used_is_named_with_those_that_can(words, there, said, tmp_path):
    """`python3` is too old, and `python3.12` is an empty shim."""
    machine = Machine(tmp_path, python3=answer("3.9"))
    machine.program("programs/python3.12", SHIM)
    (tmp_path / ".venv/bin/python").unlink()
    for path, version in there.items():
        machine.program(path, answer(version))
    machine.make(words.format(tmp_path))
    assert machine.status != 0
    assert re.fullmatch("\n".join([*said, "make.*\n"]).format(tmp_path), machine.said)


def answer(version):
    """A Python that says its version; one that is too old says so with its status."""
    return f"#!/bin/sh\necho {version}\nexit {int(version == '3.9')}\n"
