"""What runs on the machines of others, as far as it can be read here: workflows, forms, containers, the release.

Nothing of it was run by this test, and no address is needed: what wants one is skipped while there is none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from project import PROJECT, ROOT, TOOLS

import minikv

GITHUB = ROOT / ".github"
FILES = sorted((GITHUB / "workflows").glob("*.yml"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FILES}
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
NOT_LOOKED_UP: set[str] = set()  # actions whose commit could not be found for certain, and that keep their tag
OUR_ADDRESS = "needs.build.outputs.repository == format('https://github.com/{0}', github.repository)"


def steps():
    for name, workflow in WORKFLOWS.items():
        for job in workflow["jobs"].values():
            yield from ((name, step) for step in job.get("steps", []))


def test_every_yaml_can_be_read():
    paths = [path for pattern in ("*.yml", "*.yaml") for path in GITHUB.rglob(pattern)]
    assert len(paths) >= len(FILES) + 5
    for path in paths:
        assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict), path.name


def test_every_action_is_pinned_by_its_commit_with_the_tag_beside_it():
    pins = {}
    for path in FILES:
        for line in re.findall(r"uses: (.*)", path.read_text("utf-8")):
            if line.startswith("./"):
                continue
            action, at = line.partition("@")[::2]
            if action not in NOT_LOOKED_UP:
                assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", at), f"{path.name}: {line}"
            pins.setdefault(action, set()).add(at)
    assert set(pins) >= {"actions/checkout", "actions/setup-python", "pypa/gh-action-pypi-publish", *NOT_LOOKED_UP}
    assert not {action: found for action, found in pins.items() if len(found) > 1}


def test_new_commits_of_the_actions_are_offered():
    (update,) = yaml.safe_load((GITHUB / "dependabot.yml").read_text("utf-8"))["updates"]
    assert update["package-ecosystem"] == "github-actions"


def test_no_workflow_lists_files_of_the_package_or_of_its_tests():
    """Such a list rots: nothing notices what is missing in it."""
    for name, step in steps():
        assert len(re.findall(r"\b(?:tests|minikv)/", step.get("run", ""))) == 0, name


def test_every_target_that_a_workflow_makes_is_there():
    made = {word for _, step in steps() for word in re.findall(r"^make ([\w-]+)", step.get("run", ""), re.MULTILINE)}
    assert made >= {"test", "site", "links", "dist", "wheel"}
    assert not {target for target in made if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)}


def test_what_make_installs_by_name_is_pinned():
    pins = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text("utf-8").split()}
    named = re.findall(r"-c constraints\.txt ((?:\w+ ?)+)$", MAKEFILE, re.MULTILINE)
    assert {"twine", "build", "torch"} <= {name for names in named for name in names.split()} <= pins


# -- permissions ------------------------------------------------------------------------------------------------------

MORE = {
    ("site", "deploy"): {"pages": "write", "id-token": "write"},
    ("release", "publish"): {"id-token": "write"},
    ("release", "publish-tools"): {"id-token": "write"},
}


def test_a_workflow_may_read_and_a_job_more_only_where_it_must():
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job_name, job in workflow["jobs"].items():
            assert job.get("permissions") == MORE.get((name, job_name)), f"{name}: {job_name}"
            assert "uses" in job or job["timeout-minutes"] <= 350, f"{name}: {job_name}"
    assert "secrets." not in "".join(path.read_text("utf-8") for path in FILES)


# -- what wants an address --------------------------------------------------------------------------------------------


def test_only_what_wants_an_address_waits_for_one_and_fails_nothing_until_then():
    for name, job in MORE:
        assert OUR_ADDRESS in WORKFLOWS[name]["jobs"][job]["if"]
    failing = [step for _, step in steps() if "exit 1" in step.get("run", "")]
    assert [step["if"].split(" && ")[0] for step in failing] == ["steps.address.outputs.repository != ''"]


def test_the_address_comes_from_its_one_place():
    said = subprocess.run([sys.executable, ROOT / ".ci" / "address.py"], capture_output=True, text=True, check=True)
    settings = PROJECT["tool"]["minikv"]
    assert said.stdout == f"repository={settings['repository']}\ntag={settings['tag']}\n"
    readers = [(name, step["run"]) for name, step in steps() if step.get("id") == "address"]
    assert readers == [(name, 'python .ci/address.py >>"$GITHUB_OUTPUT"') for name in ("release", "site")]


def test_a_release_is_tested_built_and_signed_by_the_workflow_that_pypi_trusts():
    release = WORKFLOWS["release"]
    triggers = release[True]  # YAML reads a bare `on` as true
    assert triggers == {"push": {"tags": ["v*"]}}
    assert "workflow_call" in WORKFLOWS["test"][True]
    jobs = release["jobs"]
    assert jobs["tests"] == {"uses": "./.github/workflows/test.yml"}
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == ("tests", "build")
    assert "make dist" in [step.get("run") for step in jobs["build"]["steps"]]
    assert "twine check --strict dist/*" in MAKEFILE


PUBLISHED = {"publish": PROJECT, "publish-tools": TOOLS}


def test_each_project_is_published_alone_and_the_tools_after_the_course_that_they_need():
    jobs = WORKFLOWS["release"]["jobs"]
    assert {name for name in jobs if name.startswith("publish")} == set(PUBLISHED)
    assert jobs["publish-tools"]["needs"] == ["build", "publish"]
    stored = [step["with"] for step in jobs["build"]["steps"] if "upload-artifact" in step.get("uses", "")]
    places = {step["name"]: step["path"] for step in stored}
    environments = set()
    for job, project in PUBLISHED.items():
        take, give = jobs[job]["steps"]
        name = project["project"]["name"]
        assert jobs[job]["environment"]["url"] == f"https://pypi.org/project/{name}/"
        environments.add(jobs[job]["environment"]["name"])
        assert places.pop(take["with"]["name"]) == f"dist/{name.replace('-', '_')}-*"
        assert take["with"]["path"] == "dist"
        assert give["with"] == {"attestations": True}  # and no password
    assert (places, len(environments)) == ({}, 2)


def test_what_the_site_uploads_is_what_make_writes():
    (upload,) = [step for name, step in steps() if name == "site" and "upload-pages" in step.get("uses", "")]
    assert re.search(rf"-b html .* {re.escape(upload['with']['path'])}$", MAKEFILE, re.MULTILINE)


def test_a_tag_runs_the_tests_once():
    """A push of a tag is the release's, which calls the tests."""
    for name in ("test", "site"):
        assert WORKFLOWS[name][True]["push"] == {"branches": ["**"]}


def test_links_to_elsewhere_are_looked_at_every_week_and_never_fail():
    assert "schedule" in WORKFLOWS["links"][True]
    (look,) = [step for name, step in steps() if name == "links" and step.get("run") == "make links"]
    assert look["continue-on-error"] is True
    assert re.search(r"^\t-.*-b linkcheck", MAKEFILE, re.MULTILINE)  # make goes on after a status that is not 0
    assert re.search(r"sphinx .*-W .*-b html", MAKEFILE)


# -- forms, containers, citing ----------------------------------------------------------------------------------------

FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_wants(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    assert set(form) == {"name", "description", "title", "body"}
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(field["type"] in ("input", "textarea") and field["attributes"]["label"] for field in form["body"])
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_each_kind_of_report_has_a_form():
    assert [path.stem for path in FORMS] == ["hint_misled", "no_longer_true", "wrong_answer_passed"]
    assert set(yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / "config.yml").read_text("utf-8"))) == {
        "blank_issues_enabled"
    }


def test_a_container_is_set_up_as_the_readme_says():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    target = container["postCreateCommand"].split()[1]
    assert re.search(rf"^{target}: \$\(COURSE\)$", MAKEFILE, re.MULTILINE)
    for name in container["customizations"]["codespaces"]["openFiles"]:
        assert (ROOT / name).exists()


def test_binder_installs_what_make_lab_does():
    """repo2docker runs `pip install -r .binder/requirements.txt` in the root: -e is from there, -c from the file."""
    lines = (ROOT / ".binder" / "requirements.txt").read_text("utf-8").splitlines()
    (constraints,) = [line.removeprefix("-c ") for line in lines if line.startswith("-c ")]
    assert os.path.samefile(ROOT / ".binder" / constraints, ROOT / "constraints.txt")
    assert lines[-1] == "-e .[course,serving]"
    assert "course$(comma)serving" in MAKEFILE
    (index,) = [line.removeprefix("--extra-index-url ") for line in lines if line.startswith("--extra")]
    assert f"TORCH_INDEX ?= {index}\n" in MAKEFILE
    assert (ROOT / ".binder" / "runtime.txt").read_text("utf-8") == "python-3.11\n"


def test_the_changelog_begins_with_this_version():
    text = (GITHUB / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE)[0] == minikv.__version__


def test_both_citations_say_the_same():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    entry = dict(re.findall(r"^  (\w+) +=  ?\{(.*)\},?$", (ROOT / "CITATION.bib").read_text("utf-8"), re.MULTILINE))
    plain = {key: re.sub(r"[{}]", "", value) for key, value in entry.items()}
    assert plain["title"] == citation["title"]
    assert plain["version"] == citation["version"]
    assert plain["author"] == citation["authors"][0]["name"]
    assert plain["year"] == str(citation["date-released"].year)
    assert plain["license"] == citation["license"]
