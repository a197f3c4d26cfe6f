"""For every test, doctest and notebook alike: nobody's own record of solved exercises is read or written."""

import gc
import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from browser import chromium, lab  # noqa: F401 - fixtures: imported here, they are made once for all modules
from core import is_core
from cpu_clock import Clock
from profiles import skip_what_waits

gc.disable()  # until all tests are collected: nothing of what is imported goes, and to look for it takes a quarter
os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors, and the test processes share the cores already
os.environ["MINIKV_MINE"] = os.devnull
os.environ["MINIKV_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="minikv-"), "progress.json")

# To look for doctests in the source of a chapter is to run the chapter; and adapters need the engines.
collect_ignore = ["notebooks/src", "assets/adapters", "tools/tests/blind"]

# What takes longest goes first: whatever starts last is waited for, with one core at rest.
LONGEST = (
    "test_site.py", "test_pieces.py", "test_player_js.py", "test_playground_browser.py", "test_solved_notebooks.py",
    "test_answers.py",
    "test_browser.py", "test_predictions_browser.py", "test_engine_oracle.py", "test_verify.py",
    "test_notebooks.py", "test_conformance.py", "08_serving_engine.ipynb", "13_policies_and_traces.ipynb",
    "14_tiers.ipynb",
    "test_broken_traces.py", "test_chapters_accessible.py", "test_reports_browser.py",
    "test_cli.py", "test_drafts_oracle.py", "test_machine.py", "test_manager.py", "test_real_traffic.py",
    "test_playground.py", "test_extras.py", "test_house.py", "test_small_model.py", "test_sweep.py",
    "test_exercises.py", "test_window_machine.py", "test_hash_blocks.py", "test_old_files.py", "test_setup.py",
)  # fmt: skip


HERE = Path(__file__).parent
NBVAL = "nbval_sanitize_with"


def pytest_configure(config):
    """The clock; and what may differ in an output: here, because a core install has no nbval, and not its option."""
    config.pluginmanager.register(Clock())
    if getattr(config.option, NBVAL, "") is None:
        setattr(config.option, NBVAL, str(HERE / "tests" / "nbval_sanitize.cfg"))


def pytest_ignore_collect(collection_path, config):
    """With `-m core`, no other file is even imported: the others need what a core install lacks."""
    is_other = config.option.markexpr == "core" and collection_path.is_file() and not is_core(collection_path)
    return True if is_other else None


def pytest_collection_modifyitems(config, items):
    """What waits is skipped, and the longest go first: a process takes a whole file at a time."""
    if config.option.markexpr == "core":
        for item in items:
            item.add_marker("core")
    skip_what_waits(items)
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """The garbage of tests is collected, and the million objects that collection left are not looked at."""
    gc.freeze()
    gc.enable()


thawed, unfreeze = [], gc.unfreeze


def unfreeze_and_say_so():
    """What `gc.unfreeze` does; to ask the collector how much is frozen takes as long as to look through it."""
    unfreeze()
    thawed.append(True)


gc.unfreeze = unfreeze_and_say_so


def pytest_runtest_teardown():
    """A race thaws everything; without this, each collection until the end of the file would look through it."""
    if thawed:
        gc.freeze()
        thawed.clear()


# A shell starts what it puts in the background with Ctrl-C ignored; the tests that press it want it as it usually is.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def what_is_loaded_is_not_collected():
    """What earlier files have left and may be needed again is not looked at either."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def stays_frozen(monkeypatch):
    """For many races in a test: between two of them a million objects of other files are not looked at."""
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
