"""Set-up files and documents agree: what is required, pinned, installed and cited, and what pages say of it."""

import json
import os
import re

import pytest
import yaml
from house import named
from project import EXTRAS, PROJECT, ROOT, text_of
from test_house import PAGES, SOURCES, chapters_that_need_torch

import minikv
from minikv.cli.command import COMMANDS

GUIDE, README = text_of(".github/CONTRIBUTING.md"), text_of("README.md")
START, MAKEFILE = text_of("notebooks/site/start.md"), text_of("Makefile")


def required(*extras):
    """What the package needs with these extras, and with the extras that they name."""
    found = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        for requirement in EXTRAS[extra]:
            inner = re.match(r"minikv\[([\w,]+)\]", requirement)
            found += required(*inner[1].split(",")) if inner else [requirement]
    return list(dict.fromkeys(found))


def bounds_of(requirements):
    """Each package, and what is said of its version."""
    pattern = r"([\w-]+)(?:\[\w+\])?([^;]*)"
    found = dict(re.match(pattern, text.lower()).groups() for text in requirements)
    return {name: bound for name, bound in found.items() if name not in ("minikv", "-e")}


def test_what_is_required_has_only_a_lower_bound_and_is_pinned():
    bounds = bounds_of(required("dev"))
    assert not {name: bound for name, bound in bounds.items() if re.search("<|==", bound)}
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", text_of("constraints.txt").lower().replace("_", "-"), re.M))
    assert set(bounds) - {"tomli"} <= set(pins)
    assert pins["torch"] == "2.13.0"
    by_name = re.findall(r"-c constraints\.txt ((?:\w+ ?)+)$", MAKEFILE, re.M)
    assert {"twine", "build", "torch"} <= {*" ".join(by_name).split()} <= set(pins)


def test_the_core_is_light_and_a_hosted_service_gets_a_part_of_the_course_without_torch_and_jupyter():
    core, hosted, course = (set(bounds_of(required(*extras))) for extras in ((), ["colab"], ["course"]))
    assert core == {"numpy", "tqdm"}
    assert hosted < course
    assert not hosted & {"torch", "jupyterlab", "ipywidgets"}


def test_conda_installs_the_same_with_the_same_bounds():
    environment = yaml.safe_load(text_of("environment.yml"))
    *conda, inner = environment["dependencies"]
    bounds = bounds_of(entry.replace("pytorch", "torch") for entry in [*conda, *inner["pip"]])
    wanted = bounds_of(required("course", "serving"))
    assert {name: bounds.get(name) for name in wanted} == wanted
    assert (environment["channels"], inner["pip"][-1]) == (["conda-forge", "nodefaults"], "-e .")
    assert PROJECT["project"]["requires-python"] <= bounds["python"] == ">=3.11"


def test_a_container_is_set_up_as_make_lab_does():
    container = json.loads(text_of(".devcontainer/devcontainer.json"))
    target = container["postCreateCommand"].split()[1]
    assert f"\n{target}: $(COURSE)\n" in MAKEFILE
    assert all((ROOT / name).exists() for name in container["customizations"]["codespaces"]["openFiles"])


def test_binder_installs_what_make_lab_does():
    """repo2docker runs `pip install -r .binder/requirements.txt` in the root: -e is from there, -c from the file."""
    _, index, pins, course = text_of(".binder/requirements.txt").splitlines()
    assert f"TORCH_INDEX ?= {index.removeprefix('--extra-index-url ')}\n" in MAKEFILE
    assert os.path.samefile(ROOT / ".binder" / pins.removeprefix("-c "), ROOT / "constraints.txt")
    assert course == "-e .[course,serving]"
    assert "course$(comma)serving" in MAKEFILE
    assert text_of(".binder/runtime.txt") == "python-3.11\n"


def test_every_place_that_names_the_version_the_license_and_the_authors_names_the_same():
    citation, project = yaml.safe_load(text_of("CITATION.cff")), PROJECT["project"]
    entry = dict(re.findall(r"^  (\w+) +=  ?\{(.*)\},?$", text_of("CITATION.bib"), re.M))
    assert {key: re.sub(r"[{}]", "", value) for key, value in entry.items() if key != "note"} == {
        "title": citation["title"],
        "author": citation["authors"][0]["name"],
        "year": str(citation["date-released"].year),
        "version": citation["version"],
        "license": citation["license"],
    }
    version = re.search(r"^## (\S+)", text_of(".github/CHANGELOG.md"), re.M)[1]
    assert version == citation["version"] == project["version"] == minikv.__version__
    assert PROJECT["tool"]["minikv"]["tag"] == f"v{version}"
    assert citation["license"] == project["license"] == "MIT"


# -- what pages say ---------------------------------------------------------------------------------------------------


def test_relative_links_of_a_page_lead_somewhere():
    dead = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        targets = map("".join, re.findall(r'\]\(([^)#\s]+)|(?:src|href)="([^"#]+)"', text))
        ours = [target for target in targets if not re.match("https?:|mailto:", target)]
        dead += [f"{named(page)} links to {target}" for target in ours if not (page.parent / target).exists()]
    assert not dead


def test_what_is_run_to_check_a_change_is_the_command_of_the_readme():
    assert re.findall("^make.*", text_of(".ci/run"), re.M) == ["make test"]
    assert re.search(r"^make test\b", README, re.M)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


BARE = {  # what no page, no workflow and no rule of the Makefile may say
    # PowerShell reads `.[course,serving]` as two arguments, and zsh as a pattern for names of files
    "extras without quotes": r"""pip install.*(?<!["'\w./-])[\w./-]+\[[\w,]+\]""",
    # a package that is called `tools` belongs to somebody else
    "tools without its folder": r"(?:pip install|INSTALL\)|-m build)[^`#\n]*?(?<![\w./-])tools(?![\w-])",
}


@pytest.mark.parametrize("what", BARE)
def test_what_pip_is_told_to_install_is_named_as_every_shell_reads_it(what):
    texts = {path: path.read_text("utf-8") for path in [ROOT / "Makefile", *PAGES, *(ROOT / ".github").rglob("*.yml")]}
    assert not {path.name: found[0] for path, text in texts.items() if (found := re.search(BARE[what], text))}


def test_the_set_up_names_the_chapters_that_need_no_pytorch():
    numbers, need = [path.stem[:2] for path in SOURCES], chapters_that_need_torch()
    row = re.search(r"^\| `make lab TORCH=0`.*", START, re.M)[0]
    assert re.findall(r"\b\d\d\b", row) == [number for number in numbers if number not in need]
    words = f"chapters {', '.join(need[:-1])} and {need[-1]}"
    assert f"{words} need PyTorch" in README
    assert f"PyTorch runs the models of {words}" in START


def test_every_command_that_a_page_tells_of_is_there():
    offered = {name for names in COMMANDS.values() for name in names}
    pages = [
        README,
        *(page.read_text("utf-8") for page in PAGES if {"site", "tools"} & {*page.parts}),
    ]
    told = {*re.findall(r"(?:`|^)minikv(?:-tools)? (\w+)", "\n".join(pages), re.M)}
    assert {"lab", "doctor", "replay", "why"} <= told <= offered


def test_the_guide_for_contributors_names_what_is_there():
    names = re.findall(r"`(\w+)` (?:of [^`.]*? )?in \[[^\]]+\]\(\.\./([\w./]+\.py)\)", GUIDE)
    assert len(names) >= 10
    for name, path in names:
        assert re.search(rf"^(class |def )?{name}\b", text_of(path), re.M), f"{path} has no {name}"
    files = re.findall(r"(?<![\w./])(?:tests|minikv|notebooks)/[\w./]+\.(?:py|ipynb)", GUIDE)
    folders = re.findall(r"`((?:tests|minikv|notebooks)/\w+)`", GUIDE)
    assert not [path for path in [*files, *folders] if not (ROOT / path).exists() and "NN" not in path]
