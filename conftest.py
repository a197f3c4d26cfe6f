"""For every test, doctest and notebook alike: nobody's own record of solved exercises is read or written."""

import os
import signal
import tempfile
import threading

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors, and the test processes share the cores already
os.environ["MINIKV_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="minikv-"), "progress.json")

# A shell starts what it puts in the background with Ctrl-C ignored; the tests that press it want it as it usually is.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
