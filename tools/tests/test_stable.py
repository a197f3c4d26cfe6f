"""A prompt builder is called under two clocks, twice, in other orders, with other hash seeds; and the pytest plugin."""

import datetime
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY
from project import ROOT, TOOLS

import minikv_tools
from minikv.cli import main
from minikv_tools import assert_prefix_stable
from minikv_tools.why import builder_process
from minikv_tools.why.stable import _reordered

BUILDERS = """
import itertools, os, random, time, uuid
import datetime as calendar
from datetime import date, datetime, timezone
from time import strftime

STARTED = datetime.now()
COUNT = itertools.count()
TOOLS = [{"name": name, "description": f"The tool {name}."} for name in ("add", "mul", "div")]

def same(question="What is a page?"): return f"Be brief. {question}"
def now(): return f"It is {datetime.now():%H:%M:%S}."
def utc(): return f"It is {datetime.now(timezone.utc).isoformat()}."
def utcnow(): return f"It is {calendar.datetime.utcnow()}."
def today(): return f"It is {date.today()}."
def weekday(): return f"It is {calendar.date.today():%A}."
def hour(): return strftime("It is %H o'clock.")
def ctime(): return time.ctime()
def asctime(): return time.asctime()
def seconds(): return f"It is {int(time.time()) // 100}."
def nanoseconds(): return f"It is {time.time_ns() // 10**10}."
def local(): return f"The year {time.localtime().tm_year}."
def universal(): return f"The year {time.gmtime()[0]}."
def since(): return f"The server runs since {STARTED}."
def request_id(): return f"Request {uuid.uuid4()}. Be brief."
def count(): return f"You have been asked {next(COUNT)} times. Be brief."
def dice(): return "Some facts: " + " ".join(random.sample("abcdefgh", 8))
def set_order(): return "You may " + ", ".join({"read", "write"})
def given(words): return " ".join(words)
def tools(tools=TOOLS): return {"model": "m", "tools": tools, "messages": [{"role": "user", "content": "Hi"}]}
def third(tools): return " ".join([*tools, "!" * (os.environ["PYTHONHASHSEED"] == "3")])
def sorted_tools(tools): return {"tools": sorted(tools, key=lambda tool: tool["name"]), "messages": []}
def facts(facts): return "\\n".join(f"{key}: {value}" for key, value in facts.items())
def late_clock(question): return f"Be brief. {question} It is {datetime.now()}."
def alone():
    with open(__file__ + ".lock", "x"):
        time.sleep(0.2)
    os.remove(__file__ + ".lock")
    return "Be brief."
def metadata(): return {"prompt": "Be brief.", "metadata": {"id": str(uuid.uuid4())}}
def marked(turn=itertools.count()):
    parts = [{"type": "text", "text": "Be brief. " * 9000}, {"type": "text", "text": "Be kind."}]
    parts[1 - next(turn) % 2]["cache_control"] = {"type": "ephemeral"}
    return {"model": "claude-opus-5", "messages": [{"role": "user", "content": parts}]}
def key(): return {"model": "gpt-4o", "prompt_cache_key": str(uuid.uuid4()), "messages": []}
def short(): return {"model": "gpt-4o", "metadata": {"id": str(uuid.uuid4())}, "messages": []}
def salt(): return {"prompt": "Be brief.", "cache_salt": str(uuid.uuid4())}
def messages(): return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{date.today()}"}]
SAID = []
def state(): SAID.append({"role": "user", "content": "more"}); return SAID
def grows(said): said.append("more"); return " ".join(said)
async def later(): return "Be brief."
def yields():
    yield {"role": "system", "content": "Be brief."}
    yield {"role": "user", "content": "What is a page?"}
def fails_late():
    yield {"role": "system", "content": "Be brief."}
    raise LookupError("no template")
async def fails_later(): raise LookupError("no template")
def fails_in_library(): return time.strftime(None)
def middle(facts): return f"{len(facts)} facts, the median of them {[*facts][len(facts) // 2]}"
def first(facts): return f"The best of {len(facts)} is {max(facts, key=lambda fact: fact != 'b')}"
def prints(): print("built"); return "Be brief."
def fails(): raise LookupError("no template")
def nothing(): return None
def waits(): time.sleep(60)
def ends(): os._exit(3)
def an_object(): return [STARTED]
class Model:
    @classmethod
    def build(cls): return [{"role": "user", "content": cls.__name__}]
    def fails(self): raise LookupError("no template")
MODEL = Model()
def logs():
    import logging
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.warning("built")
    return "Be brief."
"""


@pytest.fixture
def builders(tmp_path, monkeypatch):
    """A module of prompt builders that can be imported."""
    (tmp_path / "builders.py").write_text(BUILDERS, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def said(name, *args, seeds=2, **options):
    """What the failed check of a builder says; `None` if it passes."""
    try:
        assert_prefix_stable(f"builders:{name}", args, seeds=seeds, **options)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "name", ["same", "later", "prints", "logs", "metadata", "short", "tools", "Model.build", "yields"]
)
def test_a_builder_that_always_builds_the_same_prompt_passes(builders, name):
    assert said(name) is None


@pytest.mark.parametrize(
    "name",
    ["now", "utc", "utcnow", "today", "weekday", "hour", "ctime", "asctime", "seconds", "nanoseconds", "local",
     "universal", "messages"],
)  # fmt: skip
def test_a_clock_in_the_prompt_is_found_however_it_is_read(builders, name):
    found = said(name)
    begin = (
        rf"builders:{name} builds a different prompt \(B\) when it is called (later|twice)\.\nA date or a time changed"
    )
    assert re.match(begin, found)
    assert "\nWhat to do: Put it at the end of the last message" in found


@pytest.mark.parametrize(
    ("name", "how", "kind"),
    [
        ("since", "in another process, which starts later and has a different hash seed", "A date or a time changed"),
        ("request_id", "when it is called twice", "A random id"),
        ("count", "when it is called twice", "A number changed"),
        ("dice", "when it is called twice", "The same words, lines or passages come in a different order"),
        ("key", "when it is called twice", "The prompt_cache_key changed"),
        ("marked", "when it is called twice", "The cache breakpoint moved"),
        ("salt", "when it is called twice", "The model, the adapter or the salt changed"),
    ],
)
def test_what_else_differs_is_found_under_the_call_that_shows_it(builders, name, how, kind):
    found = said(name)
    assert found.startswith(f"builders:{name} builds a different prompt (B) {how}.\n{kind}")


def test_the_place_is_shown_with_the_texts_of_both_calls(builders):
    where, before, one, two = (line.split(None, 2) for line in said("messages").splitlines()[3:7])
    assert " ".join(where) == "where messages[1] (user), content, after 3 characters"
    assert (before[0], before[1].endswith("202")) == ("shared", True)
    assert (one[:2], one[2][:7]) == (["then", "A"], "6-03-09")
    assert (two[:2], two[2][:7]) == (["then", "B"], "7-04-13")


def test_processes_run_side_by_side_on_as_many_cores_as_there_are(builders, monkeypatch):
    """Each imports the builder's whole project."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert said("alone", seeds=4) is None


def test_a_day_may_be_named_if_the_clocks_are_an_hour_apart(builders):
    assert said("today", later=3600) is None
    assert said("today").endswith("If it may change from day to day, test it with later=3600.")
    assert "later=3600" not in said("hour", later=3600)
    assert "later=3600" not in said("request_id"), "which differs when it is called twice"


def test_sets_come_in_another_order_in_another_process(builders):
    how = "builders:set_order builds a different prompt (B) in another process, which starts later and has a different"
    assert said("set_order", seeds=4).startswith(how)
    assert "Sort them by a fixed key" in said("given", {"read", "write"}, seeds=4)
    assert said("given", ["read", "write"]) is None


@pytest.mark.parametrize(
    ("name", "argument", "kind"),
    [
        ("facts", {"name": "Ada", "plan": "free"}, "The same words, lines or passages come in a different order"),
        ("tools", [{"name": "b"}, {"name": "a"}], "The same tools come in a different order"),
    ],
)
def test_only_what_is_named_is_put_in_another_order(builders, name, argument, kind):
    assert said(name, kwargs={name: argument}) is None
    found = said(name, kwargs={name: argument}, unordered=[name])
    assert found.startswith(f"builders:{name} builds a different prompt (B) when {name} is in another order.\n{kind}")
    assert said("sorted_tools", kwargs={"tools": [{"name": "b"}, {"name": "a"}]}, unordered=["tools"]) is None


def test_the_other_orders_come_last_for_a_set_changes_with_them(builders):
    """Its prompt differs in the last process, as that of a set may, and with the order of its tools."""
    found = said("third", kwargs={"tools": ["a", "b"]}, unordered=["tools"], seeds=3)
    assert found.startswith("builders:third builds a different prompt (B) in another process")


def test_several_other_orders_are_tried_for_one_may_begin_with_the_same_by_chance(builders):
    """Backwards, [a, b, c] has the same middle, and an order that begins with c has the same first that is not b."""
    for name, facts in ("middle", ["a", "b", "c"]), ("first", ("a", "b", "c")), ("middle", dict.fromkeys("abc")):
        found = said(name, kwargs={"facts": facts}, unordered=["facts"])
        assert found.startswith(f"builders:{name} builds a different prompt (B) when facts is in another order.")


@given(st.lists(st.integers(), unique=True, max_size=9))
def test_the_orders_differ_and_have_all_that_the_argument_has(items):
    """A dict stays of its class: a `defaultdict` has its default, and a `Counter` its counts."""
    for value in items, tuple(items), defaultdict(int, dict.fromkeys(items, 7)), Counter(dict.fromkeys(items, 7)):
        found = list(_reordered(value))
        assert len({tuple(each) for each in found}) == len(found) == max(1, min(3, len(items) * (len(items) - 1) // 2))
        for other in found:
            assert (type(other), sorted(other)) == (type(value), sorted(value))
            assert len(items) < 2 or list(other) != items
            assert not isinstance(value, dict) or other == value


def test_a_traceback_shows_the_frames_of_the_builder_alone(builders):
    for name in ["fails_late", "fails_in_library", *["fails", "fails_later", "MODEL.fails"] * NIGHTLY]:
        with pytest.raises(RuntimeError) as caught:
            assert_prefix_stable(f"builders:{name}", seeds=2)
        files = re.findall(r'^  File "(.*)", line', str(caught.value), re.MULTILINE)
        assert files == [str(builders / "builders.py")]
    for name, error in ("an_object", "TypeError: Object"), ("missing", "AttributeError"), ("same.x", "AttributeError"):
        with pytest.raises(RuntimeError) as caught:
            assert_prefix_stable(f"builders:{name}", seeds=2)
        assert str(caught.value).splitlines()[-1].startswith(error)
        assert 'File "' not in str(caught.value)


def test_our_own_frames_are_left_out_where_the_tools_are_installed_too(tmp_path):
    place = tmp_path / "site-packages" / "builder_process.py"
    place.parent.mkdir()
    place.write_bytes(Path(builder_process.__file__).read_bytes())
    spec = importlib.util.spec_from_file_location("installed", place)
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    with pytest.raises(ModuleNotFoundError) as caught:
        list(installed.build_prompts("no_such_module:build", [], installed.ShiftedClock(0)))
    said = installed.own_traceback(caught.value)
    assert re.findall(r'^  File "(.*)", line', said, re.MULTILINE) == [__file__]


def test_each_call_has_its_own_arguments(builders):
    assert said("grows", ["a"]) is None
    assert "when it is called twice.\nThe second prompt continues the first." in said("state")


def test_what_comes_after_a_text_may_differ(builders):
    assert said("late_clock", "What is a page?")
    assert said("late_clock", "What is a page?", until="What is a page?") is None
    assert said("now", until="It is") is None
    for name, text, count in (("same", "Where", 0), ("same", "e", 3)):
        with pytest.raises(ValueError, match=f"until is '{text}', which is in the prompt {count} times: expected once"):
            said(name, until=text)


def test_a_function_that_has_a_name_is_taken_for_its_name():
    assert_prefix_stable(os.path.basename, ["a/Be brief."], seeds=2)
    for build in (lambda: "Hi", "builders", "builders:", ":same", "__main__:build"):
        with pytest.raises(ValueError, match="which another process cannot import: expected 'module:function'"):
            assert_prefix_stable(build)


@pytest.mark.parametrize(
    ("error", "name", "options", "message"),
    [
        (RuntimeError, "fails", {}, "builders:fails failed in a separate process:\n(?s:.*)LookupError: no template$"),
        (RuntimeError, "missing", {}, "has no attribute 'missing'"),
        (RuntimeError, "waits", {"timeout": 1}, "(?s)Timeout .*in waits\n"),
        (RuntimeError, "ends", {}, r"failed in a separate process:\n\(it ended with status 3\)$"),
        (RuntimeError, "an_object", {}, "Object of type datetime is not JSON serializable"),
        (TypeError, "nothing", {}, "the prompt is None: expected a text, a list of messages or a request body"),
        (
            ValueError,
            "same",
            {"unordered": ["tools"]},
            "unordered names 'tools': expected an argument in kwargs",
        ),
        (ValueError, "same", {"unordered": ["question"], "kwargs": {"question": "Who?"}}, "names 'question': expected"),
        (ValueError, "same", {"seeds": 1}, "seeds is 1: "),
        (ValueError, "same", {"timeout": 0}, "timeout is 0: "),
        (TypeError, "same", {"unordered": "tools"}, "unordered is 'tools': expected a list"),
        (TypeError, "same", {"args": "Who?"}, r"args is 'Who\?': expected a list"),
        (
            TypeError,
            "same",
            {"args": ["Hi", print, lambda: 0]},
            "argument 2 is <function .*>, which cannot be sent to another process: create it in the builder",
        ),
        (TypeError, "same", {"kwargs": {"client": sys.stdout}}, "argument 'client' is <"),
    ],
)
def test_what_cannot_be_checked_is_an_error_that_names_it(builders, error, name, options, message):
    with pytest.raises(error, match=message):
        assert_prefix_stable(f"builders:{name}", **{"seeds": 2, **options})


DATES = """
import copy, pickle
import datetime as calendar
from datetime import date, datetime, timedelta

class Mine(datetime): pass

def build(given):
    now, day = datetime.now(), date.today()
    assert type(given) is type(now) is type(datetime(2020, 1, 1)) is type(now + timedelta(1))
    assert isinstance(now, datetime) and isinstance(now, date) and isinstance(day, date)
    assert not isinstance(day, datetime) and not isinstance(now, Mine)
    assert issubclass(Mine, datetime) and issubclass(datetime, date) and not issubclass(int, date)
    assert type(Mine.now()) is Mine and isinstance(Mine.now(), datetime) and isinstance(Mine(2020, 1, 1), Mine)
    assert pickle.loads(pickle.dumps([now, day, given])) == copy.deepcopy([now, day, given]) == [now, day, given]
    assert datetime.fromisoformat(now.isoformat()) == now == datetime.combine(now.date(), now.time())
    assert datetime.strptime("2020", "%Y") == datetime(2020, 1, 1) and datetime.fromtimestamp(0, calendar.timezone.utc)
    return "Be brief."
"""


def test_dates_are_what_they_always_are_apart_from_now(tmp_path, monkeypatch):
    (tmp_path / "dates.py").write_text(DATES, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert_prefix_stable("dates:build", [datetime.datetime(2020, 5, 5)], seeds=2)


# -- the plugin -------------------------------------------------------------------------------------------------------


def pytest_in(folder, *options):
    """Run pytest in a small repository that has minikv installed: with its entry points, and no other plugin."""
    info = folder / "site" / "minikv_tools-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: minikv-tools\nVersion: 0\n", "utf-8")
    points = TOOLS["project"]["entry-points"]["pytest11"].items()
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *(f"{k} = {v}" for k, v in points)]), "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    places = [str(folder / "site"), str(ROOT), str(ROOT / "tools")]
    environment |= {"PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *others_off(), *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def others_off():
    """Options that leave the other plugins of this environment at rest: they are slow to start."""
    from importlib.metadata import entry_points

    names = {point.name for point in entry_points(group="pytest11")} - {"minikv"}
    return [option for name in sorted(names) for option in ("-p", f"no:{name}")]


def test_a_repository_fails_for_the_right_reasons_and_passes_when_it_is_fixed(tmp_path):
    """The repository, and what the first failure says, are those of the site."""
    page = (ROOT / "tools" / "site" / "python.md").read_text("utf-8")
    builder, test = re.findall(r"^```python\n# \w+\.py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)\n^```", page, re.MULTILINE | re.DOTALL)
    elsewhere = re.search(r"`(in another process, .*?)`", page)[1]
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n', "utf-8")
    (tmp_path / "tests" / "test_prompts.py").write_text(test, "utf-8")

    def run(text):
        (tmp_path / "prompts.py").write_text(text, "utf-8")
        status, output = pytest_in(tmp_path)
        assert "stable.py" not in output  # the traceback ends in the test
        return status, "\n".join(re.findall(r"^E {7}(.*)", output, re.MULTILINE))

    assert "RuntimeError: prompts:build failed in a separate process:" in run("")[1]
    status, said = run(builder)
    assert (status, shown.startswith("AssertionError: prompts:build")) == (1, True)
    assert [line for line in shown.splitlines() if line not in said] == []
    timeless = re.sub(r"It is \{.*?\}\. ", "", builder)
    others = (timeless, elsewhere), (timeless.replace("set(tools)", "tools"), "when tools is in another order")
    for text, how in others if NIGHTLY else ():
        status, said = run(text)
        begin = f"AssertionError: prompts:build builds a different prompt (B) {how}.\nThe same words, lines or"
        assert (status, said[: len(begin)]) == (1, begin)
    assert run(timeless.replace("set(tools)", "sorted(tools)")) == (0, "")


def test_the_limit_for_a_log_fails_for_the_right_reason_and_passes_when_it_is_fixed(tmp_path, capsys):
    """The command is the one that the site shows."""
    page = (ROOT / "tools" / "site" / "python.md").read_text("utf-8")
    ((command, _, limit),) = re.findall(r"^minikv-tools (why) (log\.jsonl) --fail-if '(.*)'$", page, re.MULTILINE)
    rules = "Be brief, and answer in English. " * 20
    for begin, status in ("It is 14:{:02}. ", 1), ("", 0):
        prompts = [f"{begin.format(n)}{rules}Question {n * n}?" for n in range(60)]
        (tmp_path / "log.jsonl").write_text("".join(f'{{"prompt": "{prompt}"}}\n' for prompt in prompts), "utf-8")
        assert main([command, str(tmp_path / "log.jsonl"), "--fail-if", limit]) == status
        out, err = capsys.readouterr()
        assert bool(re.fullmatch(rf"minikv: --fail-if {limit}: lost is 9\d\.\d+%\n", err)) == bool(status), err
        assert ("A date or a time changed" in out) == bool(status)


LIGHT = """
import sys

def test_light():
    ours = {name for name in sys.modules if name.split(".")[0] in ("minikv", "minikv_tools")}
    assert ours == {"minikv_tools", "minikv_tools.pytest_plugin"}
    assert "numpy" not in sys.modules

def test_used(assert_prefix_stable):
    import minikv_tools
    assert assert_prefix_stable is minikv_tools.assert_prefix_stable
"""


def test_the_plugin_imports_nothing_until_it_is_used(tmp_path):
    (tmp_path / "test_it.py").write_text(LIGHT, "utf-8")
    status, output = pytest_in(tmp_path)
    assert (status, "2 passed" in output) == (0, True), output
    assert "assert_prefix_stable -- " in pytest_in(tmp_path, "--fixtures")[1]


def test_the_package_offers_it_and_says_what_it_lacks():
    assert "assert_prefix_stable" in minikv_tools.__all__
    with pytest.raises(AttributeError, match=r"^module 'minikv_tools' has no attribute 'nothing'$"):
        _ = minikv_tools.nothing
