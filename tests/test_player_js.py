"""The player in a bare page, without Jupyter, a kernel or a network.

What it shows after each act is in `golden/player.txt`, see `golden_text`; here is how it looks.
"""

from functools import cache

import pytest
from browser import Page, serious_findings
from golden_text import replay, sections
from nightly import by_day
from player_page import ACTS, SET, Script, put, reel_named
from scripted_films import a_cache_and_a_pool

from minikv import RadixCache, record
from minikv.course.pictures.palette import size_words
from minikv.course.pictures.tree import graphviz_way

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(graphviz_way() is None, reason="no way to run Graphviz here"),
]
GOLDEN = "player.txt"
FINISH = "document.getAnimations().forEach((one) => one.finish())"
FREEZE = "document.getAnimations().forEach((one) => { one.pause(); one.currentTime = 0; })"
MOVING = "document.getAnimations().length"
PLACE = "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"


@pytest.fixture(scope="module")
def film():
    return a_cache_and_a_pool()


@pytest.fixture(scope="module")
def page_for(chromium):
    """A page for each kind of screen; in the end nothing was asked for and nothing went wrong in it."""
    tabs = []

    @cache
    def page_for(width=1280, height=720, dark=False):
        tabs.append(Page(chromium, width, height, dark, local=("file:///",)))
        return tabs[-1].page

    yield page_for
    for tab in tabs:
        tab.context.close()
        assert (tab.leaks, tab.errors) == ([], [])


@pytest.fixture(scope="module")
def saved(page_for, film, tmp_path_factory):
    """Opens the film, saved as a page, perhaps at a step, with nothing moving any more."""
    address = film.save(tmp_path_factory.mktemp("film") / "film.html").as_uri()

    def open_it(step=None, **how):
        page = page_for(**how)
        page.mouse.move(0, 0)
        page.goto(address)
        if step is not None:
            go_to(page, step)
            page.evaluate(FINISH)
        return page

    return open_it


@pytest.fixture(scope="module")
def stopped(page_for):
    """A page of ours in which time passes only when a script says so."""
    page = page_for(height=1000)
    page.clock.install(time=0)
    page.clock.pause_at(1)
    return page


def go_to(page, number):
    page.locator("[data-testid=slider]").first.evaluate("(e, i) => { e.value = i; e.oninput({ target: e }); }", number)


def step_on(page):
    """To the next step, with all that moves at its beginning."""
    page.evaluate(f"() => {{ document.querySelector('[data-testid=next]').click(); {FREEZE}; }}")


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_the_player_shows_what_the_golden_file_says(title, stopped):
    script = Script(stopped, title.partition(" @ ")[2])
    replay(GOLDEN, title, script.act)


AT_STEP = """(step) => {
    const one = (css) => document.querySelector(css), slider = one("[data-testid=slider]");
    const all = (css, told) => [...document.querySelectorAll(css)].map(told), said = (e) => e.textContent;
    slider.value = step;
    slider.oninput({ target: slider });
    return {
        told: [said(one(".minikv-caption")).replaceAll("\u2011", "-"), slider.getAttribute("aria-valuetext"),
            said(one(".minikv-line[aria-current]"))],
        log: all(".minikv-line", said), words: all(".minikv-word", said),
        bar: all(".minikv-piece", (e) => [Math.round(10 * parseFloat(e.style.width)), e.matches(".minikv-none")]),
        fits: document.documentElement.scrollWidth <= innerWidth
            && one(".minikv-caption").scrollWidth <= one(".minikv-caption").clientWidth,
        top: one(".minikv-below").offsetTop,
    };
}"""
BY_DAY = (1280, False), (390, True)
SCREENS = by_day([*BY_DAY, (1280, True), (390, False)], lambda screen: screen in BY_DAY)
each_screen = pytest.mark.parametrize(("width", "dark"), SCREENS)


@each_screen
def test_each_step_says_what_it_is_and_nothing_jumps_or_sticks_out(saved, film, width, dark):
    page, tops = saved(width=width, dark=dark), set()
    for i, frame in enumerate(film):
        seen, total = page.evaluate(AT_STEP, i), sum(frame.sizes.values())
        assert seen["told"] == [frame.caption] * 3
        assert seen["log"] == [frame.caption for frame in film][: i + 1]  # and nothing of a later step
        assert seen["words"] == [size_words(*size) for size in frame.sizes.items()]
        assert seen["bar"] == [[round(1000 * value / total), not value] for value in frame.sizes.values()]
        assert seen["fits"]
        tops.add(seen["top"])
    assert len(tops) == 1
    assert page.locator(".minikv-caption b, script#reel + b").count() == 0  # a remark is text, never markup
    ink = "rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)"  # and no white box on a dark page
    for name in ("caption", "scene"):
        look = "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
        assert page.locator(f".minikv-{name}").evaluate(look) == [ink, "rgba(0, 0, 0, 0)"]
    assert page.locator(".minikv-pool text").first.evaluate("e => getComputedStyle(e).fill") == ink


def test_what_did_not_change_is_not_painted_or_read_out_again(saved, film):
    """To take slots leaves the tree alone."""
    page = saved(0)
    page.evaluate("window.was = ['.minikv-tree svg', '.minikv-hint'].map((css) => document.querySelector(css))")
    page.locator("[data-testid=next]").click()
    assert page.evaluate("was.every((one) => one.isConnected)")
    assert page.locator(".minikv-room").get_attribute("aria-hidden") == "true"  # it only keeps the room


def test_what_a_picture_shows_is_said(saved):
    page = saved(3)
    pool = page.locator(".minikv-pool svg").get_attribute("aria-label")
    assert pool.startswith("FreeListPool: 8 of 12 slots free m 0 n2 m 1 n2 s 2 n1 s 3 n1 4 5")
    assert page.locator(".minikv-tree svg").get_attribute("aria-label") == "tree"
    assert page.get_by_role("button", name="node root").count() == 1
    words = page.locator(".minikv-legend li").all_text_contents()
    assert [word[1:] for word in words] == ["evicted", "new", "joined", "matched", "split", "taken", "freed"]


# -- what moves ------------------------------------------------------------------------------------


def middle(page, part):
    x, y, width, height = page.locator(f'.minikv-tree [data-part="{part}"] path').first.evaluate(PLACE)
    return x + width / 2, y + height / 2


def test_a_node_glides_from_where_it_was_and_its_new_half_from_its_other_half(saved):
    page = saved(2, width=800)
    was = middle(page, 1)
    step_on(page)
    for part in (1, 2):
        assert middle(page, part) == pytest.approx(was, abs=8), part  # boxes differ in height
        assert page.locator(f'.minikv-tree [data-part="{part}"]').evaluate("e => getComputedStyle(e).opacity") == "1"
    assert page.locator(".minikv-tree .lines").evaluate("e => getComputedStyle(e).opacity") == "0"
    assert page.locator(".minikv-scene [id]").count() == 0  # ids would clash
    page.evaluate(FINISH)
    assert middle(page, 1) != pytest.approx(was, abs=8)


def test_what_is_gone_fades_where_it_was_cannot_be_reached_and_leaves_nothing_behind(saved):
    page = saved(8)
    nodes, was = page.locator(".minikv-tree [data-part]"), page.locator("g.node", has_text="evicted").evaluate(PLACE)
    count = nodes.count()
    step_on(page)
    ghost = page.locator(".minikv-tree [aria-hidden] [data-part]")
    assert ghost.evaluate(PLACE) == pytest.approx(was, abs=1)
    assert page.locator(".minikv-tree [aria-hidden] [tabindex], .minikv-tree [aria-hidden] .node").count() == 0
    page.evaluate(FINISH)
    page.wait_for_function(f"document.querySelectorAll('.minikv-tree [data-part]').length === {count - 1}")


def test_nothing_moves_where_it_is_hidden_or_not_wanted(saved):
    page = saved(2)
    page.emulate_media(reduced_motion="reduce")
    go_to(page, 3)
    assert page.evaluate(MOVING) == 0
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate("document.getElementById('film').style.display = 'none'")
    go_to(page, 4)
    go_to(page, 8)
    assert page.evaluate(MOVING) == 0


def test_a_fast_film_glides_no_longer_than_its_steps(stopped):
    """The bar of sizes has transitions of its own, which do not count."""
    put(stopped, reel_named("trimming"))
    for act, what in (("speed", "240"), ("slider", "1"), ("click", "play"), ("wait", "240")):
        ACTS[act](stopped, what)
    times = stopped.evaluate(
        """() => document.getAnimations().filter((one) => !(one instanceof CSSTransition))
            .map((one) => one.effect.getTiming().duration)"""
    )
    assert set(times) == {144}


def test_the_nodes_glide_into_another_reel_from_where_they_were(stopped):
    put(stopped, reel_named("trimming"))
    go_to(stopped, 1)
    stopped.evaluate(FINISH)
    was = middle(stopped, 1)
    stopped.evaluate(SET, {"reel": reel_named("a cache and a pool"), "index": 6})
    stopped.evaluate(FREEZE)
    assert middle(stopped, 1) == pytest.approx(was, abs=8)
    stopped.evaluate(FINISH)
    assert middle(stopped, 1) != pytest.approx(was, abs=8)
    assert stopped.locator("#one").evaluate("e => e.style.minHeight") == ""


# -- where it stands -------------------------------------------------------------------------------


def test_the_tree_and_the_pool_have_the_room_that_they_need(saved, film):
    """Side by side where there is room; the tree is enlarged, and the pool keeps its size."""
    page, (about, beside) = saved(), film.reel.panels
    tree, pool = (page.locator(f".minikv-{kind} > svg").evaluate(PLACE) for kind in ("tree", "pool"))
    assert tree[0] + tree[2] <= pool[0]
    assert pool[2] == beside["width"]
    assert tree[2] == pytest.approx(about["width"] * min(1.6, max(1, 460 / about["height"])), abs=1)
    narrow = saved(width=390, dark=True)
    tree, pool = (narrow.locator(f".minikv-{kind}").evaluate(PLACE) for kind in ("tree", "pool"))
    assert tree[1] + tree[3] <= pool[1]  # one below the other
    shown = narrow.locator(".minikv-tree > svg").evaluate(PLACE)[2]
    assert shown >= about["width"] * 0.93 - 1, "its labels have 12 px"


LETTERS = """() => [...document.querySelectorAll(".minikv-tree svg text, .minikv-pool svg text")].map((text) =>
    parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a)"""


def test_letters_have_12_px_in_a_narrow_window_and_14_for_a_projector(saved):
    """Boxes of pools with at most 64 slots; a picture that is wider than the window scrolls in itself."""
    page = saved(5, width=390, dark=True)
    small = page.evaluate(LETTERS)
    assert min(small) >= 11.9
    page.locator("[data-testid=large]").click()
    assert page.locator("[data-testid=large]").get_attribute("aria-pressed") == "true"
    assert min(page.evaluate(LETTERS)) >= 14
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("[data-testid=large]").click()
    assert page.evaluate(LETTERS) == small


IN_VIEW = """(e, css) => {
    const home = e.getBoundingClientRect(), it = e.querySelector(css).getBoundingClientRect();
    return Math.min(it.bottom, home.bottom) - Math.max(it.top, home.top) > 0.9 * it.height
        && Math.min(it.right, home.right) - Math.max(it.left, home.left) > 0.9 * it.width;
}"""


@pytest.mark.parametrize(("leaves", "steps"), [(40, (40, 1, 20)), (6, (6, 1, 3))], ids=["tall", "wide"])
def test_a_large_tree_is_scrolled_to_what_the_step_is_about(page_for, leaves, steps):
    """40 leaves grow to the right and are taller than the panel; 6 stand side by side and are wider than it."""
    cache = RadixCache()
    with record(cache) as film:
        for token in range(leaves):
            cache.insert([token, 100], [2 * token, 2 * token + 1])
    page = page_for(width=300, height=500)
    put(page, film.reel.as_dict())
    tree, place = page.locator("#one .minikv-tree"), "e => [e.scrollLeft, e.scrollTop]"
    for step in (*steps, steps[-1] + 1):
        before = tree.evaluate(place)
        page.evaluate(SET, {"index": step})
        page.evaluate(FINISH)
        assert tree.evaluate(IN_VIEW, f'[data-part="{step}"]'), step
    assert tree.evaluate(place) == before  # it was in view already
    assert max(before) > 0


def test_the_log_keeps_its_line_in_view_also_when_it_is_revealed(stopped, film):
    """In a closed fold it has no height: the log can be scrolled only afterwards."""
    put(stopped, reel_named("a cache and a pool"))
    log, line = stopped.locator("#one .minikv-log"), ".minikv-line[aria-current]"
    for step in (14, 0, 9):
        go_to(stopped, step)
        assert log.evaluate(IN_VIEW, line), step
    tabs = log.locator(".minikv-line").evaluate_all("all => all.map((line) => line.tabIndex)")
    assert tabs == [0 if i == 9 else -1 for i in range(15)]
    stopped.evaluate("document.getElementById('one').style.display = 'none'")
    stopped.wait_for_timeout(50)
    go_to(stopped, 14)
    stopped.evaluate("document.getElementById('one').style.display = ''")
    stopped.wait_for_function("document.querySelector('#one .minikv-log').scrollTop > 0")


def test_a_ring_stands_around_its_node(saved):
    page = saved(3)
    page.locator('g.node[data-part="1"]').click()
    size = "e => { const b = e.getBBox(); return [b.x, b.y, b.width, b.height]; }"
    node = page.locator('.minikv-tree [data-part="1"]')
    ring, box = node.locator(".minikv-ring").evaluate(size), node.locator("path").evaluate(size)
    assert ring == [box[0] - 6, box[1] - 6, box[2] + 12, box[3] + 12]


@each_screen
def test_a_film_opens_faintly_with_play_above_it_and_axe_finds_nothing_serious(saved, width, dark):
    page = saved(width=width, dark=dark)
    play, beside, scene = map(page.locator, ("[data-testid=play]", "[data-testid=next]", ".minikv-scene"))
    assert page.locator("g.node").count() > 1
    assert scene.evaluate("e => e.inert && getComputedStyle(e).opacity < 0.5")
    assert serious_findings(page) == []
    _, y, _, height = was = beside.evaluate(PLACE)
    assert y + height <= scene.evaluate(PLACE)[1], "no node is below it"
    play.click()
    assert beside.evaluate(PLACE) == was, "nothing moves under the mouse"
    for step in (4, 14):
        go_to(page, step)
        page.evaluate(FINISH)
        page.locator("g.node").last.click()
        assert serious_findings(page) == []


@pytest.mark.nightly
def test_axe_finds_what_is_wrong(saved):
    page = saved(0)
    page.locator(".minikv-scene").evaluate("e => e.insertAdjacentHTML('beforeend', '<img src=\"data:image/png,\">')")
    assert [finding.split(":")[0] for finding in serious_findings(page)] == ["image-alt"]
