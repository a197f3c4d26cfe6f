"""The HTML reports as a reader opens them: from a file, offline, in light and dark, on wide and narrow screens."""

import itertools
import json

import pytest
from browser import Page, serious_findings
from nightly import by_day

from minikv import cli

pytestmark = pytest.mark.browser

HOSTILE = "<script>document.title = 'gone'</script><img src=x onerror=document.body.remove()>" + "w" * 300


def write_lines(path, entries):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return str(path)


def plan(folder):
    """Thirty conversations, of which three are under way at a time."""
    requests = []
    for number in range(120):
        who, turn = number % 3 + 3 * (number // 12), number % 12 // 3
        blocks = [0, 1, *range(100 * who + 2, 100 * who + 20 + 9 * turn)]
        requests.append({"timestamp": 9000 * number, "input_length": 512 * len(blocks), "output_length": 90,
                         "hash_ids": blocks, "session": f"{who} {HOSTILE}"[:190]})  # fmt: skip
    trace = write_lines(folder / "day.jsonl", requests)
    return ["plan", trace, "--model", "llama-3.1-8b", "--memory", "8GiB", "--ttl", "30,300"]


def why(folder):
    """A chat whose system prompt tells the time, with tools that change places now and then."""
    entries = []
    for number in range(40):
        tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in "ab"]
        if number % 8 == 7:
            tools.reverse()
        system = f"You help. {HOSTILE} It is 2026-11-22T10:{number // 4:02}:00Z. " + "Be brief and exact. " * 30
        asked = [
            {"role": "user", "content": f"Question {turn} of the day? {HOSTILE}"} for turn in range(number % 5 + 1)
        ]
        messages = [{"role": "system", "content": system}, *asked]
        entries.append({"messages": messages, "tools": tools, "timestamp": number})
    return ["why", write_lines(folder / "log.jsonl", entries)]


@pytest.fixture(scope="module", params=[plan, why], ids=lambda make: make.__name__)
def report(request, tmp_path_factory):
    """The address of a report."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    assert cli.main([*request.param(folder), "--html", str(folder / "report.html")]) == 0
    return (folder / "report.html").as_uri()


SCREENS = ["light 1280", "dark 390", "light 390", "dark 1280"]


@pytest.mark.parametrize("screen", by_day(SCREENS, lambda screen: screen in SCREENS[:2]))
def test_a_report_is_read_offline_in_light_and_dark_on_wide_and_narrow_screens(report, screen, chromium):
    dark, width = screen.startswith("dark"), int(screen.split()[1])
    tab = Page(chromium, width, 900, dark, local=(report,))
    page = tab.page
    page.goto(report)
    assert not tab.leaks, "it loads nothing"
    assert not tab.errors
    assert page.title() not in ("", "gone")
    assert page.locator("h1").count() == 1
    levels = page.locator("h1, h2, h3, h4").evaluate_all("found => found.map(one => +one.tagName[1])")
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), "no level of heading is skipped"
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "it does not scroll sideways"
    ink, paper = page.evaluate(BRIGHTNESS)
    assert (ink > paper) == dark
    for picture in page.locator("svg, img").all():
        assert picture.get_attribute("role") == "img"
        assert len(picture.get_attribute("aria-label") or picture.get_attribute("alt") or "") > 20
    for table in page.locator("table").all():
        assert table.locator("caption, th").count() >= 2
    assert serious_findings(page) == []
    tab.context.close()


BRIGHTNESS = """() => {
    const style = getComputedStyle(document.body);
    const sum = color => color.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + +b, 0);
    return [sum(style.color), sum(style.backgroundColor)];
}"""


def test_a_report_has_tables_and_a_plan_its_curve_and_needs_no_script(report, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("table").count() >= 1
    assert page.locator("svg").count() >= ("plan" in report)
    assert page.locator("script, link, iframe, object, embed, form").count() == 0
    context.close()
