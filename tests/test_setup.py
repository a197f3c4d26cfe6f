"""`make lab` and `make test` fetch what this machine needs: which PyTorch, from where, and what they say first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from project import ROOT

MAKE = shutil.which("make")
pytestmark = pytest.mark.skipif(not MAKE, reason="there is no make on this machine")

# Stands for the Python of the virtual environment: it notes what it is asked, and passes on questions about an index.
PYTHON = """#!/bin/sh
echo "$*" >> asked.txt
case "$*" in
  *"index versions"*|*--no-deps*) exec "{python}" "$@" ;;
esac
"""


class Machine:
    """A copy of the Makefile in a folder of its own, with an empty virtual environment, and with or without a GPU."""

    def __init__(self, folder, gpu=False):
        self.folder = folder
        self.programs = folder / "programs"
        (folder / ".venv" / "bin").mkdir(parents=True)
        self.programs.mkdir()
        for name in ("Makefile", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
        (folder / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "pyproject.toml", folder / "tools" / "pyproject.toml")
        for tool in ("sh", "grep", "touch", "rm"):
            (self.programs / tool).symlink_to(shutil.which(tool))
        self.program(folder / ".venv" / "bin" / "python", PYTHON.format(python=sys.executable))
        for name in ("minikv", "ruff", "mypy", "codespell"):
            self.program(folder / ".venv" / "bin" / name, "#!/bin/sh\n")
        if gpu:
            self.program(self.programs / "nvidia-smi", "#!/bin/sh\n")

    @staticmethod
    def program(path, text):
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    def make(self, *words, index="http://127.0.0.1:9", links=""):
        """What pip was asked, one line a call, and what was said; port 9 is where nobody answers."""
        asked = self.folder / "asked.txt"
        asked.write_text("", "utf-8")
        ours = (
            "PIP_",
            "MAKE",
            "MFLAGS",
            "TORCH",
            "GPU",
            "VENV",
            "PYTHON",
            "PYENV",
            "UV",
        )  # of the `make test` that runs this test
        settings = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        settings.update(
            PATH=str(self.programs),
            HOME=str(self.folder),
            PIP_CONFIG_FILE=os.devnull,
            PIP_TARGET=str(self.folder / "packages"),
            PIP_FIND_LINKS=links,
        )
        done = subprocess.run([MAKE, *words, f"TORCH_INDEX={index}"], cwd=self.folder, env=settings,
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        self.status, self.said = done.returncode, done.stdout + done.stderr
        flag = "-m pip --disable-pip-version-check "
        return [line.removeprefix(flag) for line in asked.read_text("utf-8").splitlines() if "pip" in line]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def gpu_machine(tmp_path):
    return Machine(tmp_path, gpu=True)


@pytest.fixture
def index(tmp_path):
    """An index with one tiny wheel, which calls itself PyTorch's CPU build."""
    name = "torch-2.13.0+cpu-py3-none-any.whl"
    folder = tmp_path / "index" / "torch"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / name, "w") as wheel:
        about = "torch-2.13.0+cpu.dist-info"
        wheel.writestr("torch/__init__.py", "__version__ = '2.13.0+cpu'\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{name.replace("+", "%2B")}">{name}</a>', "utf-8")
    return folder.parent.as_uri()


COURSE = "install -c constraints.txt -e .[course,serving]"
ANY_TORCH = "install --no-compile -c constraints.txt torch"
BOTH = "-e .[dev] -e ./tools[sweep]"
DEV = f"install --no-compile -c constraints.txt {BOTH}"


def test_without_a_gpu_the_cpu_build_comes_from_pytorchs_own_index(machine, index):
    probe, torch, course = machine.make("lab", index=index)
    assert probe.startswith(f"index versions torch --index-url {index}")
    assert torch == f"install --no-compile --no-deps --index-url {index} torch==2.13.0"
    assert course == COURSE
    assert machine.said.index("CPU build: 0.2 GB to fetch") < machine.said.index(
        "Successfully installed torch-2.13.0+cpu"
    )
    assert (machine.folder / "packages" / "torch" / "__init__.py").exists()


def test_an_index_that_does_not_answer_is_asked_once_and_pip_decides(machine):
    probe, *rest = machine.make("lab")
    assert "--retries 0 --timeout 5" in probe
    assert rest == [ANY_TORCH, COURSE]
    assert "http://127.0.0.1:9 cannot be reached" in machine.said
    assert "2.8 GB to fetch" in machine.said
    assert "TORCH=0" in machine.said


def test_an_index_without_this_version_counts_as_none(machine, index):
    pins = machine.folder / "constraints.txt"
    pins.write_text(pins.read_text("utf-8").replace("torch==2.13.0", "torch==9.9.9"), "utf-8")
    assert machine.make("lab", index=index)[1:] == [ANY_TORCH, COURSE]
    assert "no torch 9.9.9 for this Python" in machine.said


def test_a_wheel_that_lies_ready_elsewhere_does_not_answer_for_the_index(machine, index):
    assert machine.make("lab", links=f"{index}/torch")[1:] == [ANY_TORCH, COURSE]
    assert "cannot be reached" in machine.said


def test_a_download_that_breaks_off_does_not_turn_into_the_large_one(machine, index):
    for wheel in (machine.folder / "index" / "torch").glob("*.whl"):
        wheel.write_bytes(b"half a wheel")
    assert ANY_TORCH not in machine.make("lab", index=index)
    assert machine.status != 0


def test_with_a_gpu_the_other_build_is_taken(gpu_machine):
    assert gpu_machine.make("lab") == [ANY_TORCH, COURSE]
    assert "PyTorch with CUDA: 2.8 GB to fetch" in gpu_machine.said


def test_gpu_1_and_gpu_0_overrule_what_was_found(tmp_path):
    for present, choice in ((False, "GPU=1"), (True, "GPU=0")):
        (tmp_path / choice).mkdir()
        asked = Machine(tmp_path / choice, gpu=present).make("lab", choice)
        assert asked[-2:] == [ANY_TORCH, COURSE]
        assert ("index versions" in asked[0]) == (choice == "GPU=0")


def test_torch_0_installs_the_course_alone(machine):
    assert machine.make("lab", "TORCH=0") == ["install -c constraints.txt -e .[course]"]
    assert "0.1 GB to fetch" in machine.said
    assert "PyTorch" not in machine.said


def test_the_tests_cannot_go_without_pytorch(machine):
    assert machine.make("test", "TORCH=0") == []
    assert "the tests need PyTorch" in machine.said
    assert machine.status != 0


def test_the_same_choice_installs_once_and_another_choice_again(machine):
    assert len(machine.make("lab")) == 3
    assert machine.make("lab") == []
    assert machine.make("lab", "GPU=1") == ["uninstall --yes torch", ANY_TORCH, COURSE]
    assert machine.make("lab", "GPU=1") == []
    assert machine.make("lab")[0] == "uninstall --yes torch"
    assert machine.make("lab", "TORCH=0") == ["install -c constraints.txt -e .[course]"]


def test_make_test_installs_both_projects_and_what_make_lab_needs(machine):
    *_, last = [line for line in machine.make("test") if line.startswith("install")]
    assert last == DEV
    assert "0.4 GB to fetch" in machine.said
    assert machine.make("lab") == []


def test_a_change_of_the_tools_installs_them_again_for_the_tests_and_not_for_the_course(machine):
    machine.make("test")
    tools = machine.folder / "tools" / "pyproject.toml"
    later = tools.stat().st_mtime + 60
    os.utime(tools, (later, later))
    assert machine.make("lab") == []
    assert [line for line in machine.make("test") if line.startswith("install")] == [DEV]


def test_both_projects_are_built_and_checked_and_the_wheels_tried_together(machine):
    machine.make("wheel")
    done = (machine.folder / "asked.txt").read_text("utf-8").splitlines()
    assert done[-4:] == [
        "-m build --no-isolation",
        "-m build --no-isolation --outdir dist ./tools",
        "-m twine check --strict dist/*",
        ".ci/wheel.py dist/*.whl",
    ]


BARE = re.compile(r"(?:pip install|INSTALL\)|-m build)[^`#\n]*?(?<![\w./-])tools(?![\w-])")


def test_the_tools_are_named_by_their_folder():
    """A package that is called `tools` belongs to somebody else."""
    folders = [ROOT / name for name in (".github", "minikv", "notebooks", "tools")]
    named = [path for folder in folders for ending in ("md", "yml") for path in folder.rglob(f"*.{ending}")]
    texts = {path: path.read_text("utf-8") for path in [ROOT / "Makefile", ROOT / "README.md", *named]}
    assert not {path.name: found[0] for path, text in texts.items() if (found := BARE.search(text))}
    assert any("./tools[sweep]" in text for text in texts.values())
    for told in ("pip install tools", "pip install -e . -e 'tools[sweep]'", '$(INSTALL) "tools"', "-m build tools"):
        assert BARE.search(told), told


@pytest.mark.parametrize(("types", "tests"), [(0, 0), (1, 0), (0, 1)])
def test_make_test_fails_where_the_types_or_the_tests_do_and_shows_the_types_last(types, tests, machine):
    bin = machine.folder / ".venv" / "bin"
    machine.program(bin / "mypy", f"#!/bin/sh\necho said of types\nexit {types}\n")
    machine.program(bin / "python", PYTHON.replace("esac", f"  *pytest*) echo said of tests; exit {tests} ;;\nesac"))
    (machine.programs / "cat").symlink_to(shutil.which("cat"))
    machine.make("test")
    assert (machine.status != 0) == (types + tests > 0)
    assert machine.said.index("said of tests") < machine.said.index("said of types")


def test_make_gpu_without_a_gpu_says_so_in_one_line_and_installs_nothing(machine):
    assert machine.make("gpu") == []
    assert machine.status == 2
    said = [line for line in machine.said.splitlines() if "***" not in line]  # make itself adds that a rule failed
    assert said == ["make gpu needs an NVIDIA GPU, and nvidia-smi finds none on this machine."]


def test_make_gpu_with_a_driver_that_finds_no_gpu_says_so_too(gpu_machine):
    assert gpu_machine.make("gpu") == []
    assert (gpu_machine.status, "finds none on this machine" in gpu_machine.said) == (2, True)


def test_make_gpu_runs_what_waits_for_one(tmp_path):
    machine = Machine(tmp_path, gpu=True)
    machine.program(tmp_path / "programs" / "nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA T4'\n")
    asked = machine.make("gpu")
    assert machine.status == 0
    assert [line for line in asked if line.startswith("install")] == [ANY_TORCH, DEV]
    done = (tmp_path / "asked.txt").read_text("utf-8").splitlines()
    assert "torch.cuda.is_available()" in done[-6]
    assert done[-5:] == [
        "-m pytest -q -rs -m gpu tests",
        "-m pytest -q --nbval notebooks/06_gpu_kv_copying.ipynb",
        "assets/copying.py --device cuda --save assets/copy.json",
        "assets/chatting.py --device cuda --save assets/engine.json",
        "notebooks/build.py 06",
    ]


def test_make_gpu_stops_where_pytorch_finds_no_gpu(tmp_path):
    machine = Machine(tmp_path, gpu=True)
    machine.program(tmp_path / "programs" / "nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA K80'\n")
    python = PYTHON.format(python=sys.executable)
    machine.program(tmp_path / ".venv" / "bin" / "python", python.replace("esac", "  *cuda*) exit 1 ;;\nesac"))
    asked = machine.make("gpu")
    assert machine.status == 2
    assert "can use, and it finds none: is the driver too old?" in machine.said
    assert not [line for line in asked if "pytest" in line]


# Stands for the Python that makes the virtual environment, whose place one that does as `pip` says takes.
MAKER = """#!/bin/sh
case "$*" in
  *venv*) mv ready .venv/bin/python ;;
esac
"""


@pytest.mark.parametrize("pip", ["exit 0", "exit 1"])
def test_a_new_environment_gets_a_newer_pip_where_one_can_be_had(pip, machine):
    ready = machine.folder / ".venv" / "bin" / "python"
    ready.rename(machine.folder / "ready")
    machine.program(machine.folder / "ready", PYTHON.replace("esac", f'  *"pip>=25"*) {pip} ;;\nesac'))
    machine.program(machine.programs / "python3", MAKER)
    (machine.programs / "mv").symlink_to(shutil.which("mv"))
    assert machine.make("lab", "TORCH=0") == [
        "install --retries 0 --timeout 5 pip>=25",
        "install -c constraints.txt -e .[course]",
    ]
    assert machine.status == 0
    assert ("No newer pip can be reached" in machine.said) == (pip == "exit 1")
    assert machine.make("lab", "TORCH=0") == []


# A shim of pyenv's: the program is there, and says that no version behind it is active.
SHIM = """#!/bin/sh
echo "pyenv: {0}: command not found" >&2
echo "The '{0}' command exists in these Python versions: 3.12.1" >&2
exit 127
"""
ANSWERS = """#!/bin/sh
echo {0}
exit {1}
"""


@pytest.fixture
def bare(tmp_path):
    """A machine without a virtual environment, whose `python3` is too old and whose `python3.12` is an empty shim."""
    machine = Machine(tmp_path)
    (tmp_path / ".venv" / "bin" / "python").unlink()
    machine.program(machine.programs / "python3", ANSWERS.format("3.9", 1))
    machine.program(machine.programs / "python3.12", SHIM.format("python3.12"))
    return machine


def add_pyenv(machine, folder, **versions):
    """Pythons that pyenv has, of which none is active."""
    for name, status in versions.items():
        place = machine.folder / folder / "versions" / name.replace("_", ".") / "bin"
        place.mkdir(parents=True)
        machine.program(place / "python", ANSWERS.format(name[1:].replace("_", ".")[:4], status))


def said_by(machine):
    return [line for line in machine.said.splitlines() if "***" not in line]


def test_a_shim_of_pyenv_with_no_version_behind_it_is_named_with_what_it_says_and_the_pythons_that_answer(bare):
    add_pyenv(bare, ".pyenv", v3_9_18=1, v3_12_1=0)
    bare.program(bare.programs / "python3.13", ANSWERS.format("3.13", 0))
    bare.make("lab", "PYTHON=python3.12")
    assert bare.status != 0
    assert said_by(bare) == [
        "python3.12 cannot be run: pyenv: python3.12: command not found",
        "The 'python3.12' command exists in these Python versions: 3.12.1",
        "These can:",
        "  make lab PYTHON=python3.13   # Python 3.13",
        f"  make lab PYTHON={bare.folder}/.pyenv/versions/v3.12.1/bin/python   # Python 3.12",
    ]


def test_a_python_that_is_too_old_is_named_with_its_version(bare):
    add_pyenv(bare, "elsewhere", v3_13_0=0)
    bare.make("test", f"PYENV_ROOT={bare.folder}/elsewhere")
    assert said_by(bare) == [
        "python3 is Python 3.9, and the course needs 3.11 or newer.",
        "These can:",
        f"  make test PYTHON={bare.folder}/elsewhere/versions/v3.13.0/bin/python   # Python 3.13",
    ]


def test_where_no_python_answers_what_was_tried_is_said(bare):
    bare.make("lab", "PYTHON=python4")
    first, last = said_by(bare)
    assert re.match(r"python4 cannot be run: .*python4.*not found", first)
    assert last == "No other was found: python3, python3.11 to python3.14 and those of pyenv were tried."


# -- uv ---------------------------------------------------------------------------------------------------------------

UV = '#!/bin/sh\necho "uv $*" >> asked.txt\n'
INTO = "uv pip install --python .venv/bin/python"


@pytest.fixture
def with_uv(machine):
    machine.program(machine.programs / "uv", UV)
    return machine


def test_uv_installs_the_same_with_the_same_pins(with_uv, index):
    probe, torch, course = with_uv.make("lab", index=index)
    assert probe.startswith(f"index versions torch --index-url {index}")  # pip's question, which uv does not have
    assert torch == f"{INTO} --no-deps --index-url {index} torch==2.13.0"
    assert course == f"{INTO} -c constraints.txt -e .[course,serving]"
    assert with_uv.make("lab", index=index) == []


def test_uv_takes_the_large_build_where_pip_does(with_uv):
    _, torch, *_, dev = [line for line in with_uv.make("test") if "pip install" in line or "index" in line]
    assert torch == f"{INTO} -c constraints.txt torch"
    assert dev == f"{INTO} -c constraints.txt {BOTH}"
    assert with_uv.make("lab", "GPU=1")[0] == "uv pip uninstall --python .venv/bin/python torch"


def test_an_empty_uv_leaves_it_to_pip(with_uv):
    assert with_uv.make("lab", "UV=", "TORCH=0") == ["install -c constraints.txt -e .[course]"]


def test_pip_shows_its_progress():
    assert "--quiet" not in (ROOT / "Makefile").read_text("utf-8")
