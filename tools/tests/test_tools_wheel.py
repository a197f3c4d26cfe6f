"""What PyPI gets of the tools: a wheel with the package and nothing else, and sources that make the same one."""

import email
import re
import subprocess
import sys
import tarfile
import zipfile
from types import SimpleNamespace

import pytest
from project import PROJECT, ROOT, TOOLS

import minikv
import minikv_tools

HOME = ROOT / "tools"


def build(folder, made, *kinds):
    """The one file of each kind that Hatchling makes of a folder."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(made)]
    command += [word for kind in kinds for word in ("-t", kind)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    endings = {"wheel": "*.whl", "sdist": "*.tar.gz"}
    return [next(made.glob(endings[kind])) for kind in kinds]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The wheel and the sources."""
    return build(HOME, tmp_path_factory.mktemp("dist"), "wheel", "sdist")


@pytest.fixture(scope="module")
def wheel(dist):
    with zipfile.ZipFile(dist[0]) as archive:
        yield {name: archive.read(name) for name in archive.namelist()}


ABOUT = f"minikv_tools-{minikv_tools.__version__}.dist-info"


def metadata(wheel):
    return email.message_from_bytes(wheel[f"{ABOUT}/METADATA"])


def test_the_wheel_has_the_package_and_no_file_of_another(wheel):
    package = HOME / "minikv_tools"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert "minikv_tools/why/kinds.txt" in wheel
    about = {f"{ABOUT}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert set(wheel) == {path.relative_to(HOME).as_posix() for path in files} | about


def test_the_wheel_brings_its_commands_its_format_and_the_plugin_of_pytest(wheel):
    assert wheel[f"{ABOUT}/entry_points.txt"].decode().replace(" = ", "=").split() == [
        "[console_scripts]", "minikv-tools=minikv_tools.cli:main",
        "[minikv.commands]", *(f"{name}=minikv_tools.cli.{name}" for name in ("plan", "sweep", "trace", "why")),
        "[minikv.formats]", "log=minikv_tools.log_format",
        "[pytest11]", "minikv=minikv_tools.pytest_plugin",
    ]  # fmt: skip


def test_the_license_is_that_of_the_course(wheel):
    license = wheel[f"{ABOUT}/licenses/LICENSE"]
    assert license == (HOME / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_pypi_shows_the_readme_with_links_that_it_can_follow(wheel):
    about = metadata(wheel)
    assert about["Description-Content-Type"] == "text/markdown"
    text = about.get_payload(decode=True).decode()
    assert text.startswith((HOME / "README.md").read_text("utf-8").splitlines()[0])
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert not [target for target in targets if not target.startswith(("https://", "http://", "#"))]


def test_the_sources_make_the_same_wheel_and_have_nothing_from_above_their_folder(dist, tmp_path):
    with tarfile.open(dist[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert {name for name in names if not name.startswith("minikv_tools/")} == {
        "LICENSE", "PKG-INFO", "README.md", "links.py", "pyproject.toml", ".gitignore",
        *(["CHANGELOG.md"] if (HOME / "CHANGELOG.md").exists() else []),
    }  # fmt: skip
    (sources,) = tmp_path.iterdir()
    (again,) = build(sources, tmp_path / "again", "wheel")
    assert again.read_bytes() == dist[0].read_bytes()


def test_a_project_below_another_is_described_with_links_from_its_own_folder(tmp_path):
    links = pytest.importorskip("hatchling") and load_links()
    (tmp_path / "pyproject.toml").write_text('[tool.minikv]\nrepository = "https://x.org"\ntag = "v1"\n', "utf-8")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "README.md").write_text("[a](../a.md) ![b](b.png)", "utf-8")
    found = {}
    config = {"checkout": "..", "folder": "tools", "changelog": "tools/CHANGELOG.md"}
    links.Links.update(SimpleNamespace(root=str(tmp_path / "tools"), config=config), found)
    assert found["readme"]["text"] == "[a](https://x.org/blob/v1/a.md) ![b](https://x.org/raw/v1/tools/b.png)"
    assert found["urls"]["Changelog"] == "https://x.org/blob/v1/tools/CHANGELOG.md"


def load_links():
    """The hook of both builds, which is in the folder of the tools and not in the package."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("links_of_both", HOME / "links.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- versions ---------------------------------------------------------------------------------------------------------


def test_both_projects_have_one_version_and_a_tag_releases_both():
    versions = {
        TOOLS["project"]["version"],
        minikv_tools.__version__,
        PROJECT["project"]["version"],
        minikv.__version__,
    }
    assert {f"v{version}" for version in versions} == {PROJECT["tool"]["minikv"]["tag"]}


def test_the_tools_need_the_minor_version_of_the_course_that_they_were_made_with(wheel):
    major, minor = map(int, minikv.__version__.split(".")[:2])
    pin = f"minikv>={major}.{minor}.0,<{major}.{minor + 1}"
    assert [line for line in TOOLS["project"]["dependencies"] if line.startswith("minikv")] == [pin]
    needed = [line for line in metadata(wheel).get_all("Requires-Dist") if "extra" not in line]
    assert sorted(re.split(r"[<>=]", line)[0] for line in needed) == ["minikv", "numpy"]


def test_the_tools_need_the_pythons_that_the_course_needs():
    assert TOOLS["project"]["requires-python"] == PROJECT["project"]["requires-python"]
    pythons = [{line for line in each["project"]["classifiers"] if "Python :: 3." in line} for each in (PROJECT, TOOLS)]
    assert pythons[0] == pythons[1]
