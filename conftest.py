"""For every test, doctest and notebook alike: nobody's own record of solved exercises is read or written."""

import gc
import os
import signal
import tempfile
import threading

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors, and the test processes share the cores already
os.environ["MINIKV_MINE"] = os.devnull
os.environ["MINIKV_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="minikv-"), "progress.json")

collect_ignore = ["notebooks/src"]  # to look for doctests in the source of a chapter is to run the chapter

# A shell starts what it puts in the background with Ctrl-C ignored; the tests that press it want it as it usually is.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def what_is_loaded_is_not_collected():
    """The tests and their libraries are half a million objects, which each full garbage collection would visit."""
    gc.collect()
    gc.freeze()
