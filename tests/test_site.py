"""The site works from the file system: every link, every film, search, light and dark, on a screen and on a phone."""

import html
import itertools
import os
import re
from urllib.parse import unquote

import pytest
from nightly import NIGHTLY, by_day
from project import ROOT, python

pytest.importorskip("sphinx")
EXECUTED = [] if NIGHTLY else ["03"]  # of the others, the outputs that are stored
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("*_*.ipynb") if path.stem != "try_it")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that `make site` builds."""
    folder = tmp_path_factory.mktemp("site")
    pages = ["notebooks/site/pages.py", folder / "pages", *EXECUTED]
    sphinx = ["-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", folder / "doctrees"]
    both = os.pathsep.join([str(ROOT), str(ROOT / "tools")])
    for command in (pages, [*sphinx, folder / "pages", folder / "site"]):
        done = python(*command, cwd=ROOT, PYTHONPATH=both)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site):
    """The text of each page, by its name."""
    paths = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    names = [path.relative_to(site).with_suffix("").as_posix() for path in paths]
    return {name: path.read_text("utf-8") for name, path in zip(names, paths)}


@pytest.fixture(scope="module")
def reference(pages):
    return "".join(text for name, text in pages.items() if name.startswith("reference/"))


def test_it_has_every_chapter_and_every_name_of_both_packages(pages, reference):
    import minikv
    import minikv_tools

    assert set(CHAPTERS) <= set(pages)
    for package in minikv, minikv_tools:
        names = [f"{package.__name__}.{name}" for name in package.__all__]
        assert [name for name in names if f'id="{name}"' not in reference] == []


def test_the_navigation_tells_the_course_and_the_tools_apart(pages):
    """Each page of the tools is below the one entry of the tools, and pages of the course are not."""
    item = r'<li class="nav-item current active">\s*<a[^>]*>\s*(.*?)\s*</a>'
    current = {name: re.findall(item, pages[name]) for name in ("tools", "python", "caches")}
    assert current["tools"] == current["python"] == ["minikv-tools"] * len(current["tools"])
    assert current["tools"]
    assert set(current["caches"]) == {"Your own cache"}
    course, _, tools = pages["index"].partition('<section id="tools">')
    links = [re.findall(r'<a class="reference internal" href="(\w+).html"><span', part) for part in (course, tools)]
    assert links == [["course", "start", "caches", "teachers"], ["tools", "python"]]


def test_the_reference_says_what_the_code_says_and_nothing_about_how_it_was_made(pages, reference):
    articles = "".join(re.findall(r"<article.*?</article>", reference, re.S))
    shown = html.unescape(re.sub(r"<[^>]+>", "", articles))
    for garbled in ("Alias for field", "<lambda>", "(*args, **kwargs)", "“", "``", "\\*", "\\_", ":py:"):
        assert garbled not in shown
    indexes, rules = pages["reference/indexes"], pages["reference/index"]
    assert 'id="minikv.RadixCache.match_prefix"' in indexes  # it comes from a base class
    assert re.search(r'href="#minikv.PrefixCache"[^>]*><code', indexes)  # a name in a docstring leads to its entry
    assert 'href="reference/index.html"><span class="std std-doc">rules' in pages["caches"]
    assert 'href="indexes.html#minikv.PrefixCache"' in rules


def test_every_link_inside_it_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site, pages):
    texts = {site / f"{name}.html": text for name, text in pages.items()}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    dead, loaded = [], []
    for path, text in texts.items():
        shown = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        loaded += re.findall(r'<(?:script|img|link|iframe|source)[^>]+(?:src|href)="((?:https?:)?//[^"]+)"', text)
        for target in map(html.unescape, re.findall(r'<a [^>]*href="([^"]+)"', shown)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, part = unquote(target).partition("#")
            there = (path.parent / name).resolve() if name else path
            if not there.exists() or (part and there in ids and part not in ids[there]):
                dead.append(f"{path.name} -> {target}")
    assert dead == []
    assert loaded == []


def test_a_link_to_any_page_shows_what_it_is(site, pages):
    for name, page in pages.items():
        found = dict(re.findall(r'<meta (?:name|property)="([\w:]+)" content="([^"]*)"', page))
        assert "1,036 tokens" in found["description"], name
        assert found["og:title"].endswith("minikv")
        assert ((site / name).parent / found["og:image"]).exists(), name
        assert 'rel="icon"' in page


def test_a_page_names_its_license_and_all_columns_and_all_is_small_enough_to_carry(site, pages):
    nameless = re.compile(r"<th[^>]*>\s*(?:<p>\s*</p>)?\s*</th>")
    for name, text in pages.items():
        assert "CC BY 4.0" in text, name
        assert not nameless.search(text), name
    run = pages["03_radix_splitting"]
    assert ("Press play to step through the film." in run, "Run the cell to step" in run) == (True, False)
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 60_000_000


def test_no_level_of_heading_is_skipped(pages):
    for name in CHAPTERS:
        levels = [int(level) for level in re.findall(r"<h(\d)>", pages[name])]
        assert levels[0] == 1, name
        assert all(below <= above + 1 for above, below in itertools.pairwise(levels)), name


def parts_of(page):
    """The lines of each slide, without what is folded: heading, time, text, what is asked."""
    bare = re.sub(r'<(style|script|details)\b.*?</\1>|<a class="headerlink.*?</a>', "", page, flags=re.DOTALL)
    for part in bare.split("<h2>")[1:]:
        words = html.unescape(re.sub(r"<[^>]+>", "", part))
        yield [" ".join(line.split()) for line in words.splitlines() if line.strip()]


def test_the_slides_are_the_parts_of_the_lecture_in_order_with_what_they_ask(pages):
    import teachers

    page = pages["slides"]
    parts = list(parts_of(page))
    assert len(parts) == len(teachers.LECTURE)
    for (minutes, chapter, said), (heading, time, text, *asked) in zip(teachers.LECTURE, parts):
        (notebook,) = (ROOT / "notebooks").glob(f"{chapter}_*.ipynb")
        assert f"# {chapter} · {heading}\\n" in notebook.read_text("utf-8")
        assert time.endswith(f" · {minutes} minutes · chapter {chapter}")
        assert text.replace("’", "'") == said.replace("`", "")
        labels = re.findall(r"\d\.[a-z]", said)
        assert [label for label in labels if any(line.startswith(f"{label}: ") for line in asked)] == labels
        assert [goal for goal in teachers.WAYS if f"`{goal}`" in said and teachers.WAYS[goal][0] not in asked] == []
    answers = re.findall(r"<details><summary>(\d\.[a-z]): the answer", page)
    assert answers == re.findall(r"\d\.[a-z]", " ".join(said for *_, said in teachers.LECTURE))
    assert page.count("<summary>One way</summary>") == sum(said.count("`") // 2 for *_, said in teachers.LECTURE)
    assert "<details open" not in page
    assert 'href="slides.html"' in pages["teachers"]


LOOK = """() => ({
  films: document.querySelectorAll('.minikv-film').length,
  players: document.querySelectorAll('.minikv-film .minikv-player').length,
  nameless: [...document.querySelectorAll('article img')].filter((image) => !image.alt).length,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""


@pytest.fixture
def opened(site, chromium):
    """Opens a page of the site in a tab, which at the end has met no error and loaded nothing from elsewhere."""
    from browser import Page

    tabs = []

    def opened(name, width=1280, theme="light"):
        if not tabs:
            tabs.append(Page(chromium, width, 900, dark=theme == "dark", local=("file:", "data:", "blob:")))
        page, _, query = name.partition("?")
        tabs[0].page.goto((site / f"{page}.html").as_uri() + f"?{query}" * bool(query))
        return tabs[0].page

    yield opened
    assert (tabs[0].errors, tabs[0].leaks) == ([], [])
    tabs[0].context.close()


def first_film(page):
    """Its first step is shown when it is asked for the next one; a row of pictures begins with its first one."""
    film = page.locator(".minikv-film").first
    film.get_by_test_id("next").click()
    step = int(re.search(r"\d+", film.locator(".minikv-caption").inner_text())[0])
    assert step in (1, 2)
    return film, step


SCREENS = list(itertools.product([1280, 390], ["light", "dark"]))


@pytest.mark.browser
@pytest.mark.parametrize(("width", "theme"), by_day(SCREENS, lambda screen: screen == (390, "dark")))
def test_a_page_can_be_read_and_its_films_step_without_a_kernel(opened, width, theme):
    from browser import serious_findings

    names = ["03_radix_splitting", "reference/indexes", "index", "which_design", "tools"]
    for name in names if NIGHTLY else names[:2]:
        page = opened(name, width, theme)
        found = page.evaluate(LOOK)
        assert found["films"] == found["players"]
        assert (found["nameless"], found["wide"]) == (0, 0)
        if name == "03_radix_splitting":
            assert found["films"] == 2  # the opening film, and a recording of the playground
            first_film(page)
        assert serious_findings(page) == []


TOP = "() => [...document.querySelectorAll('h1, h2')].findLast(each => each.getBoundingClientRect().top < 60).innerText"


@pytest.mark.browser
@pytest.mark.parametrize("theme", by_day(["light", "dark"], lambda theme: theme == "light"))
def test_the_arrow_keys_change_the_slide_and_its_film_steps(opened, theme):
    from browser import serious_findings

    page = opened("slides", theme=theme)
    films, press = page.locator(".minikv-film"), page.keyboard.press
    assert films.count() == page.evaluate(LOOK)["players"] >= 3
    headings = page.locator("h2").all_inner_texts()
    seen = [page.evaluate(TOP)]
    for _ in range(len(headings) + films.count()):
        press("ArrowRight")
        seen.append(page.evaluate(TOP))
    assert [name for name, _ in itertools.groupby(seen)] == ["A 90-minute lecture", *dict.fromkeys(headings)]
    press("PageUp")
    press("ArrowLeft")
    assert page.evaluate(TOP) != seen[-1]
    film, step = first_film(page)
    now = page.evaluate(TOP)
    press("ArrowRight")  # in a film it is the film's
    assert f"{step + 1}. " in film.locator(".minikv-caption").inner_text()
    assert page.evaluate(TOP) == now
    assert page.evaluate(LOOK)["wide"] == 0
    assert serious_findings(page) == []
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) > len(headings)  # on paper each has its own page


@pytest.mark.browser
def test_search_finds_a_word_without_a_server(opened):
    page = opened("search?q=eviction")
    page.locator("#search-results li").first.wait_for()
    assert "What goes first?" in page.locator("#search-results").inner_text()
