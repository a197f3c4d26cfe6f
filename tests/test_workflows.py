"""What runs on the machines of others, as far as it can be read here: workflows, their permissions, the release, forms.

Nothing of it was run by this test, and no address is needed: what wants one is skipped while there is none.
"""

import re

import pytest
import yaml
from core import NEED_MORE, is_core
from house import TESTS, named
from mutants import packages
from project import PROJECT, ROOT, TOOLS, python, text_of
from test_facts import GUIDE, MAKEFILE, START, bounds_of, required

GITHUB = ROOT / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.yml"))
TEXTS = {path.stem: path.read_text("utf-8") for path in FILES}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = {
    f"{name}/{job}": found
    for name, workflow in WORKFLOWS.items()
    for job, found in workflow["jobs"].items()
}  # fmt: skip
STEPS = [(name, step) for name, job in JOBS.items() for step in job.get("steps", [])]
COMMANDS = "\n".join(step.get("run", "") for _, step in STEPS)
UPLOADS = [(name, step["with"]) for name, step in STEPS if "upload-" in step.get("uses", "")]
UPLOADED = {kept.get("name", name): kept["path"] for name, kept in UPLOADS}
OUR_ADDRESS = "needs.build.outputs.repository == format('https://github.com/{0}', github.repository)"


def runs(job):
    """The commands of a job."""
    return [step["run"] for name, step in STEPS if name == job and "run" in step]


def triggers(workflow):
    return WORKFLOWS[workflow][True]  # YAML reads a bare `on` as true


def test_every_action_is_pinned_by_its_commit_with_the_tag_beside_it_and_newer_ones_are_offered():
    lines = re.findall(r"uses: (?!\./)(.*)", "\n".join(TEXTS.values()))
    assert not [line for line in lines if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)]
    assert len({*lines}) == len({line.partition("@")[0] for line in lines}), "two pins of one action"
    (update,) = yaml.safe_load(text_of(".github/dependabot.yml"))["updates"]
    assert update["package-ecosystem"] == "github-actions"


def test_a_workflow_makes_targets_that_are_there_and_lists_no_files():
    """A list of files rots: nothing notices what is missing in it."""
    made = {*re.findall(r"^make ([\w-]+)", COMMANDS, re.M)}
    assert {"test", "site", "links", "dist", "wheel"} <= made <= {*re.findall(r"^([\w-]+):", MAKEFILE, re.M)}
    assert not re.search(r"\b(?:tests|minikv)/", COMMANDS)


MORE = {
    "site/deploy": {"pages": "write", "id-token": "write"},
    "release/publish": {"id-token": "write"},
    "release/publish-tools": {"id-token": "write"},
}


def test_a_workflow_may_read_and_a_job_more_only_where_it_must():
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in WORKFLOWS.values())
    for name, job in JOBS.items():
        assert job.get("permissions") == MORE.get(name), name
        assert "uses" in job or job["timeout-minutes"] <= 350, name
    assert "secrets." not in "".join(TEXTS.values())


# -- what wants an address --------------------------------------------------------------------------------------------


def test_only_what_wants_an_address_waits_for_one_and_fails_nothing_until_then():
    assert all(OUR_ADDRESS in JOBS[name]["if"] for name in MORE)
    failing = [step["if"].split(" && ")[0] for _, step in STEPS if "exit 1" in step.get("run", "")]
    assert failing == ["steps.address.outputs.repository != ''"]
    readers = [(name, step["run"]) for name, step in STEPS if step.get("id") == "address"]
    reads = 'python .ci/address.py >>"$GITHUB_OUTPUT"'
    assert readers == [("release/build", reads), ("site/build", reads)]
    repository, tag = (PROJECT["tool"]["minikv"][name] for name in ("repository", "tag"))
    assert python(ROOT / ".ci" / "address.py").stdout == f"repository={repository}\ntag={tag}\n"


def test_a_release_is_tested_built_and_signed_and_the_tools_follow_the_course_that_they_need():
    assert triggers("release") == {"push": {"tags": ["v*"]}}
    assert "workflow_call" in triggers("test")
    assert JOBS["release/tests"] == {"uses": "./.github/workflows/test.yml"}
    assert {name: job.get("needs") for name, job in WORKFLOWS["release"]["jobs"].items()} == {
        "tests": None, "build": "tests", "publish": "build", "publish-tools": ["build", "publish"],
    }  # fmt: skip
    assert "make dist" in runs("release/build")
    assert "twine check --strict dist/*" in MAKEFILE
    for of, project in (("", PROJECT), ("-tools", TOOLS)):
        name, job = project["project"]["name"], JOBS[f"release/publish{of}"]
        assert job["environment"]["name"] == f"pypi{of}"
        assert job["environment"]["url"] == f"https://pypi.org/project/{name}/"
        take, give = (step["with"] for step in job["steps"])
        assert take["path"] == "dist"
        assert UPLOADED[take["name"]] == f"dist/{name.replace('-', '_')}-*"
        assert give == {"attestations": True}  # and no password


def test_the_site_is_uploaded_from_where_make_writes_it_and_dead_links_elsewhere_fail_nothing():
    written = re.search(r"sphinx .*-W .*-b html .* (\S+)$", MAKEFILE, re.M)[1]
    assert UPLOADED["site/build"] == written
    assert "schedule" in triggers("links")
    (look,) = [step for _, step in STEPS if step.get("run") == "make links"]
    assert look["continue-on-error"] is True
    assert re.search(r"^\t-.*-b linkcheck", MAKEFILE, re.M)  # make goes on after a status that is not 0


def test_the_course_in_the_browser_is_published_only_if_its_check_passes():
    made, checked = runs("site/build")[-2:]
    assert made == "make site"
    unless = "timeout 900 .venv/bin/python .ci/lite.py _site || {\n"
    unless += "  .venv/bin/python notebooks/site/lite.py _site/lite --without\n"
    assert checked.startswith(unless)


def test_a_tag_runs_the_tests_once():
    """A push of a tag is the release's, which calls the tests."""
    assert all(triggers(name)["push"] == {"branches": ["**"]} for name in ("test", "site"))


# -- what is tested where ---------------------------------------------------------------------------------------------


def test_a_push_is_tested_on_three_systems_and_every_python_that_is_promised():
    assert JOBS["test/make"]["strategy"]["matrix"]["os"] == ["ubuntu-latest", "macos-latest"]
    assert runs("test/make") == ["make test"]
    assert JOBS["test/windows"]["runs-on"] == "windows-latest"
    tested = {*re.findall(r"'(3\.\d+)'", str(WORKFLOWS["test"]))}
    classifiers = "\n".join(PROJECT["project"]["classifiers"])
    assert tested == {*re.findall(r"Python :: (3\..*)", classifiers)}
    first = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert first in JOBS["test/core"]["strategy"]["matrix"]["python"]


def test_windows_is_set_up_in_the_workflow_as_the_page_says():
    """The workflow installs more: what the tests need, and the tools."""
    line = r"^ *(?:- run: )?(\.venv\\Scripts\\python -m pip install [^[]*)\[[\w,]+\](\".*)$"
    ((said, end),), ((done, more),) = (re.findall(line, text, re.M) for text in (START, TEXTS["test"]))
    assert (done, more) == (said, f'{end} -e "./tools[sweep]"')


def test_the_core_is_tested_alone_and_then_with_the_tools():
    wanted = ["python -m pip install .", "python -m pytest -q -m core minikv tests",
              "python -m pip install ./tools", "python -m pytest -q -m core tools"]  # fmt: skip
    assert [run for run in runs("test/core") if run in wanted or "-m pytest" in run] == wanted


def test_the_night_tries_every_mutant_and_what_waits_for_it():
    parts = " ".join(JOBS["nightly/mutants"]["strategy"]["matrix"]["part"])
    assert sorted(parts.split()) == packages()
    *filling, last = runs("nightly/sweeps")
    assert runs("nightly/mutants") == ['make mutants JOBS=4 PART="${{ matrix.part }}"']
    assert last == "make unit JOBS=4"
    guide = " ".join(GUIDE.replace("\\\n", "").split())
    assert len(filling) == 3
    assert all(command in guide for command in filling)  # what tests/test_pyodide.py and test_lite.py need
    settings = JOBS["nightly/sweeps"]["env"]
    assert settings == {"HYPOTHESIS_PROFILE": "nightly", "MINIKV_PYODIDE": "/tmp/pyodide"}


# -- what a core install can run --------------------------------------------------------------------------------------

MISSING = """
import sys
options, blocked = sys.argv[1:-1], sys.argv[-1].split()
sys.modules.update(dict.fromkeys(blocked))
import pytest
sys.exit(pytest.main(["--collect-only", "-p", "no:cacheprovider", *options]))
"""


@pytest.mark.parametrize(
    ("project", "folder", "example"),
    [
        ("minikv tests", "tests", "minikv/prefix/radix.py"),
        pytest.param("tools", "tools/tests", "tools/minikv_tools/journal.py", marks=pytest.mark.nightly),
    ],
)
def test_the_core_job_collects_its_tests_without_what_a_core_install_lacks(project, folder, example):
    """Neither the extras nor what comes with them, nor what only POSIX has."""
    lacks = {*bounds_of(required("dev")), "joblib", "IPython", "resource", "traitlets", "yaml"}
    lacks -= {*bounds_of(required("testing")), "pytest", "tomli"}
    lacks |= {"minikv_tools"} if folder == "tests" else set()
    (command,) = [run for run in runs("test/core") if run.endswith(f"-m core {project}")]
    done = python("-c", MISSING, *command.split()[3:], " ".join(lacks).replace("-", "_"), cwd=ROOT,
                  PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONPATH=str(ROOT))  # fmt: skip
    assert (done.returncode, "deselected" in done.stdout) == (0, False), done.stdout[-2000:] + done.stderr[-2000:]
    found = {*re.findall(r"^[\w/]+\.py(?=::)", done.stdout, re.M)}
    core = {named(path) for path in TESTS if is_core(path) and path.parent == ROOT / folder}
    assert {name for name in found if name.startswith(f"{folder}/")} == core
    assert example in found
    assert {path.name for path in TESTS} >= NEED_MORE


# -- forms ------------------------------------------------------------------------------------------------------------

KINDS = ["config", "hint_misled", "no_longer_true", "wrong_answer_passed"]
FORMS = {path.stem: path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml")}


def test_each_kind_of_report_has_a_form_with_what_github_wants():
    forms = {name: yaml.safe_load(path.read_text("utf-8")) for name, path in FORMS.items()}
    assert sorted(forms) == KINDS
    assert set(forms.pop("config")) == {"blank_issues_enabled"}
    for name, form in forms.items():
        assert set(form) == {"name", "description", "title", "body"}, name
        assert len({field["id"] for field in form["body"]}) == len(form["body"]), name
        assert all(field["type"] in ("input", "textarea") and field["attributes"]["label"] for field in form["body"])
        assert any(field.get("validations", {}).get("required") for field in form["body"]), name
