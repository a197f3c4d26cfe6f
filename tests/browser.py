"""A real JupyterLab in a real browser: fixtures for the tests that are marked `browser`."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
BROWSER = os.environ.get("MINIKV_CHROME") or next((p for name in NAMES if (p := shutil.which(name))), None)
QUIET = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
RUN_ALL = """async () => {
    const app = window.jupyterapp, panel = app.shell.currentWidget;
    await app.restored; await panel.context.ready;
    await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info;
    return await app.commands.execute('notebook:run-all-cells');
}"""
AXE = "async within => (await axe.run(within, {preload: false, resultTypes: ['violations']})).violations"


@pytest.fixture(scope="session")
def chromium():
    """A headless browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not BROWSER:
        pytest.skip("no Chrome or Chromium on this machine")
    with playwright.sync_playwright() as running:
        yield launch(running)


def launch(playwright):
    """A headless browser of this machine."""
    as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=BROWSER, args=QUIET + as_root)


class Page:
    """A tab in which every request to what is not `local` is refused and written down, as is every console error."""

    def __init__(
        self,
        browser,
        width=1280,
        height=720,
        dark=False,
        local=("http://127.0.0.1", "data:", "blob:"),
    ):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        self.page = self.context.new_page()
        self.leaks = []
        self.errors = []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.context.route(lambda url: not url.startswith(local), lambda route: self._refuse(route))

    def _refuse(self, route):
        self.leaks.append(route.request.url)
        route.abort()


def serious_findings(page, within="body"):
    """What axe finds serious or critical in a page; the test is skipped where axe is not installed."""
    axe = pytest.importorskip("axe_playwright_python")
    page.evaluate(Path(axe.__file__).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate(AXE, within)  # what passes would be ten thousand elements to describe and send
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['html'][:200]}" for one in serious for node in one["nodes"]]


class Lab:
    """A JupyterLab server of its own, with its own settings, on a free port."""

    def __init__(self, root, home):
        self.root = root
        (home / "config" / "labconfig").mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        self.base = f"http://127.0.0.1:{port}"
        folders = {"CONFIG": "config", "DATA": "data", "RUNTIME": "run"}
        places = {f"JUPYTER_{name}_DIR": str(home / folder) for name, folder in folders.items()}
        places |= {f"JUPYTERLAB_{name}_DIR": str(home / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
        options = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0", "--allow-root",
                   f"--IdentityProvider.token={self.token}", "--LabApp.expose_app_in_browser=True",
                   "--JupyterNotebookApp.expose_app_in_browser=True"]  # fmt: skip
        self.log = home / "log"
        with open(self.log, "wb") as log:
            environment = {**os.environ, **places, "JUPYTER_PREFER_ENV_PATH": "1", "MINIKV_PROGRESS": os.devnull}
            command = [sys.executable, "-m", "minikv", "lab", *options]
            self.process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)
        self._wait()

    def _wait(self):
        for _ in range(400):
            try:
                urllib.request.urlopen(f"{self.base}/api/status?token={self.token}", timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        pytest.fail(self.log.read_text())

    def open(self, tab, name):
        """Open a notebook and run it from top to bottom; fails unless every cell passes."""
        page = tab.page
        page.goto(f"{self.base}/lab/tree/{name}?reset&token={self.token}")
        page.wait_for_selector(".jp-Notebook")
        assert page.evaluate(RUN_ALL), page.locator(".jp-OutputArea-output").all_inner_texts()
        return page

    @contextlib.contextmanager
    def playing(self, browser, cells, **how):
        """A tab with a notebook of these cells, beside the chapters, after Run All; in the end nothing went wrong."""
        import nbformat  # which a core install has not

        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        found = list(map(nbformat.v4.new_code_cell, cells))
        notebook = nbformat.v4.new_notebook(cells=found, metadata=kernel)
        nbformat.write(notebook, self.root / "notebooks" / "played.ipynb")
        tab = Page(browser, **how)
        self.open(tab, "played.ipynb")
        yield tab
        assert (tab.leaks, tab.errors) == ([], [])
        tab.page.evaluate("async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }")
        tab.context.close()

    def stop(self):
        """End the server and its kernels."""
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """The course, open for the whole session."""
    with course(tmp_path_factory.mktemp("course")) as server:
        yield server


@contextlib.contextmanager
def course(folder):
    """`minikv lab` on a copy of the notebooks in an empty folder, as `make lab` starts it."""
    root, home = folder / "course", folder / "jupyter"
    here = Path(__file__).resolve().parent.parent
    shutil.copytree(here / "notebooks", root / "notebooks", ignore=shutil.ignore_patterns("src", "__pycache__"))
    server = Lab(root, home)
    try:
        yield server
    finally:
        server.stop()
