"""For every test, doctest and notebook alike: nobody's own record of solved exercises is read or written."""

import gc
import os
import signal
import tempfile
import threading

import pytest

gc.disable()  # until all tests are collected: nothing of what is imported goes, and to look for it takes a quarter
os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors, and the test processes share the cores already
os.environ["MINIKV_MINE"] = os.devnull
os.environ["MINIKV_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="minikv-"), "progress.json")

collect_ignore = ["notebooks/src"]  # to look for doctests in the source of a chapter is to run the chapter

# What takes longest goes first: whatever starts last is waited for, with one core at rest.
LONGEST = (
    "browser", "test_solved_notebooks.py", "test_pieces.py", "test_engine_oracle.py", "test_verify.py",
    "test_notebooks.py", "test_conformance.py", "08_serving_engine.ipynb", "test_cli.py", "test_drafts.py",
    "test_bench.py", "test_machine.py", "test_playground.py", "test_extras.py", "test_house.py", "test_small_model.py",
    "test_sweep.py", "test_exercises.py",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """A file is tested by one process; all that needs a browser too, so that JupyterLab and Chromium start once."""
    places = {name: place for place, name in enumerate(LONGEST)}
    groups = {
        item: "browser" if item.get_closest_marker("browser") else item.nodeid.partition("::")[0] for item in items
    }
    items.sort(key=lambda item: places.get(groups[item].rpartition("/")[2], len(places)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item]))  # for `--dist loadgroup`


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """The garbage of tests is collected."""
    gc.enable()


# A shell starts what it puts in the background with Ctrl-C ignored; the tests that press it want it as it usually is.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def what_is_loaded_is_not_collected():
    """The tests and their libraries are half a million objects, which each full garbage collection would visit."""
    gc.collect()
    gc.freeze()
