"""The player in a bare page: a saved film from a file, without Jupyter, a kernel or a network."""

from __future__ import annotations

import json

import pytest
from browser import Page, serious_findings

from minikv import CacheManager, FreeListPool, LockError, RadixCache, draw, play, record
from minikv.course.pictures.palette import size_words
from minikv.course.pictures.tree import graphviz_way
from minikv.course.reel import script, style_sheet

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(graphviz_way() is None, reason="no way to run Graphviz here"),
]


def a_film():
    cache, pool = RadixCache(), FreeListPool(12)
    with record(cache, pool) as film:
        slots = pool.alloc(4)
        first = cache.insert([1, 2, 3, 4], slots)
        cache.lock(first.handle)
        match = cache.match_prefix([1, 2, 9])
        cache.insert([1, 2, 9], [*match.slots, *pool.alloc(1)])
        with film.step('a remark with <b>, "quotes", & and </script>, long enough to be wrapped on a narrow page'):
            pass
        with pytest.raises(LockError):
            cache.reset()
        cache.unlock(first.handle)
        pool.free(cache.evict(1))
    return film


@pytest.fixture(scope="module")
def film():
    return a_film()


@pytest.fixture(scope="module")
def address(film, tmp_path_factory):
    """Where the film is, saved as a page of its own."""
    return film.save(tmp_path_factory.mktemp("film") / "film.html").as_uri()


@pytest.fixture(scope="module")
def tabs(chromium):
    """A tab for each kind of screen: each test has a page of its own in it, and a browser takes long to open a tab."""
    tabs = {}

    def tab_for(width=1280, height=720, dark=False):
        if (width, height, dark) not in tabs:
            tab = tabs[width, height, dark] = Page(chromium, width, height, dark)
            tab.context.unroute_all()
            tab.context.route(lambda url: not url.startswith("file:///"), lambda route: tab._refuse(route))
        return tabs[width, height, dark]

    yield tab_for
    for tab in tabs.values():
        tab.context.close()


@pytest.fixture
def opened(tabs):
    """The tabs of one test: in the end nothing has been asked for and nothing has gone wrong in them."""
    opened = []

    def open_it(address, **how):
        tab = tabs(**how)
        assert tab not in opened, "a second page would replace the first one"
        opened.append(tab)
        tab.page.mouse.move(0, 0)
        tab.page.goto(address)
        return tab

    yield open_it
    for tab in opened:
        tab.page.goto("about:blank")
        leaks, errors = tab.leaks[:], tab.errors[:]
        tab.leaks.clear()
        tab.errors.clear()
        assert not leaks, leaks
        assert not errors, errors


@pytest.fixture
def tab(opened, address):
    """Opens the film."""
    return lambda **how: opened(address, **how)


MODELS = """async ([code, reel, before]) => {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const { default: widget } = await import(url);
    window.told = []; window.heard = {}; window.ends = {};
    for (const name of ["one", "two"]) {
        const values = { reel, index: 0, clicked: -1 };
        const model = { get: (key) => values[key], on: (key, f) => { heard[name] = f; },
            off: (key, f) => { if (heard[name] === f) delete heard[name]; },
            set: (key, value) => { values[key] = value; told.push([name, key, value]); },
            save_changes: () => { eval(before); } };
        window[`model_${name}`] = model;
        ends[name] = widget.render({ model, el: document.getElementById(name) });
    }
}"""


@pytest.fixture
def widget(opened):
    """Opens the widget twice on a page of ours, with models that say what they were told."""

    def open_it(reel, before="", **how):
        tab = opened("about:blank", **how)
        tab.page.set_content(f"<style>{style_sheet()}</style><div id=one></div><div id=two></div>")
        tab.page.evaluate(MODELS, [script(), json.loads(json.dumps(reel)), before])
        return tab

    return open_it


def step(page):
    return int(page.locator(".minikv-player").get_attribute("data-step"))


def go_to(page, number):
    page.locator("[data-testid=slider]").evaluate("(e, i) => { e.value = i; e.oninput({ target: e }); }", number)


def test_buttons_slider_and_the_end(tab, film):
    page = tab().page
    last = len(film) - 1
    assert step(page) == 0
    page.locator("[data-testid=next]").click()
    page.locator("[data-testid=next]").click()
    assert step(page) == 2
    assert page.locator(".minikv-caption").text_content() == film.at(2).caption
    assert page.locator("[data-testid=count]").text_content() == f"step 2 of {last}"
    page.locator("[data-testid=prev]").click()
    assert step(page) == 1
    page.locator("[data-testid=slider]").fill("4")
    assert step(page) == 4
    page.locator("[data-testid=first]").click()
    page.locator("[data-testid=prev]").click()
    assert step(page) == 0


def test_it_plays_to_the_end_stops_there_and_starts_over(tab, film):
    page = tab().page
    page.locator("[data-testid=speed]").select_option("240")
    play_button = page.locator("[data-testid=play]")
    play_button.click()
    assert play_button.get_attribute("aria-label") == "pause"
    page.wait_for_function(f"document.querySelector('.minikv-player').dataset.step === '{len(film) - 1}'")
    page.wait_for_function("document.querySelector('[data-testid=play]').textContent.includes('play')")
    play_button.click()
    page.wait_for_function("document.querySelector('.minikv-player').dataset.step === '1'")
    play_button.click()
    assert play_button.get_attribute("aria-label") == "play"


def test_another_speed_is_taken_up_at_once(tab, film):
    page = tab().page
    page.locator("[data-testid=speed]").select_option("2400")
    page.locator("[data-testid=play]").click()
    page.locator("[data-testid=speed]").select_option("240")
    page.wait_for_function("document.querySelector('.minikv-player').dataset.step > 1", timeout=1800)


@pytest.mark.parametrize("choose", ["Enter", " "])
def test_the_keyboard_does_all_of_it(tab, film, choose):
    page = tab().page
    page.locator(".minikv-player").focus()
    for key, wanted in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", len(film) - 1), ("Home", 0)):
        page.keyboard.press(key)
        assert step(page) == wanted, key
    page.keyboard.press(" ")
    assert page.locator("[data-testid=play]").get_attribute("aria-label") == "pause"
    page.keyboard.press(" ")
    go_to(page, 5)
    page.locator("[data-testid=large]").focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused).startswith("node root")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "node [1 2], n2 · slots 0-1, locked ×1"
    page.keyboard.press(choose)
    assert page.locator(".minikv-facts .minikv-story").text_content().startswith("node 2")
    page.keyboard.press("ArrowRight")
    assert step(page) == 6
    assert page.evaluate(focused).startswith("node [1 2]")  # the focus stays with its node
    page.keyboard.press("Escape")
    assert page.locator(".minikv-hint").count() == 1


def test_its_keys_are_its_own_and_others_are_not(tab):
    """A notebook or a browser must not act on a key that the player took; Ctrl and Alt belong to the browser."""
    page = tab().page
    page.evaluate(
        """() => {
            window.outside = []; window.taken = [];
            document.addEventListener("keydown", (e) => outside.push(e.key));
            const player = document.querySelector(".minikv-player"), own = player.onkeydown;
            player.onkeydown = (e) => { own(e); taken.push([e.key, e.defaultPrevented]); };
        }"""
    )
    page.locator(".minikv-player").focus()
    for key in ("ArrowRight", "Control+ArrowRight", "Alt+ArrowRight", "x"):
        page.keyboard.press(key)
    assert step(page) == 1
    assert page.evaluate("outside") == []
    taken = [pair for pair in page.evaluate("taken") if pair[0] in ("ArrowRight", "x")]
    assert taken == [["ArrowRight", True], ["ArrowRight", False], ["ArrowRight", False], ["x", False]]


def test_a_click_on_a_node_tells_its_story_as_of_this_step(tab):
    page = tab().page
    go_to(page, 3)
    page.locator('g.node[data-part="1"]').click()
    facts = page.locator(".minikv-facts")
    assert "node 1  [1 2 3 4]" in facts.text_content()
    assert "0-3" in facts.text_content()
    events = page.locator(".minikv-events li")
    assert events.all_text_contents() == [
        "inserted by step 2 (insert [1 2 3 4])",
        "locked by step 3 (lock a prefix of 4 tokens)",
    ]
    page.keyboard.press("ArrowRight")
    assert events.last.text_content() == "split at step 4 (match [1 2 9]), and its beginning is now n2"
    assert page.locator(".minikv-tree .minikv-ring").count() == 1
    assert page.locator(".minikv-pool .minikv-ring").count() == 2  # the slots that it has left
    events.first.locator("button").click()
    assert step(page) == 2


def test_a_click_on_a_slot_tells_why(tab, film):
    page = tab().page
    go_to(page, len(film) - 1)
    cells = page.locator(".minikv-pool svg")
    cells.click(position={"x": 4.5 * 44, "y": 26 + 22})
    assert page.locator(".minikv-facts .minikv-story").text_content() == "slot 4"
    assert tuple(page.locator(".minikv-events li").all_text_contents()) == film.why(4).events
    cells.click(position={"x": 20, "y": 12})  # the heading is no slot
    assert page.locator(".minikv-facts .minikv-story").text_content() == "slot 4"
    page.locator('g.node[data-part="1"]').click()
    page.locator(".minikv-facts dd button").click()
    assert page.locator(".minikv-ring").count() == 2  # the slot and the node that holds it
    assert page.locator(".minikv-facts .minikv-story").text_content() == "slot 2"


FOCUSED = "document.activeElement.textContent"


def test_a_link_in_a_story_keeps_the_keys_in_the_player(tab, film):
    """The story is written anew at each step, and the focus must not fall out of the player with the old one."""
    page = tab().page
    go_to(page, 4)
    page.locator('g.node[data-part="1"]').click()
    page.locator(".minikv-events button").nth(1).click()
    assert step(page) == 3
    assert page.evaluate(FOCUSED) == "locked by step 3 (lock a prefix of 4 tokens)"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert step(page) == 5
    page.keyboard.press("Home")  # where this node has no story yet
    page.keyboard.press("ArrowRight")
    assert step(page) == 1


def test_the_pool_is_told_about_without_a_mouse(tab, film):
    page = tab().page
    go_to(page, 5)
    pool = page.locator(".minikv-pool")
    assert pool.get_attribute("aria-label") == "FreeListPool: 7 of 12 slots free; Enter: the story of a slot"
    pool.focus()
    page.keyboard.press("Enter")
    heading = page.locator(".minikv-facts .minikv-story")
    assert heading.text_content() == "slot 0"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.className").startswith("minikv-panel minikv-pool")
    page.locator(".minikv-beside button", has_text="slot 1").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert heading.text_content() == "slot 2"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert heading.text_content() == "slot 1"
    go_to(page, len(film) - 1)
    page.locator(".minikv-pool svg").click(position={"x": 7.5 * 44, "y": 26 + 66})  # no cell there: 12 slots in 2 rows
    assert heading.text_content() == "slot 1"


def test_a_step_is_read_out_once(tab, film):
    """The caption is; the story is only when it was asked for, and what did not change is not written again."""
    page = tab().page
    facts = page.locator(".minikv-facts")
    page.evaluate("window.hint = document.querySelector('.minikv-hint')")
    page.locator("[data-testid=next]").click()
    assert page.evaluate("window.hint === document.querySelector('.minikv-hint')")
    assert facts.get_attribute("aria-live") == "off"
    go_to(page, 3)
    page.locator('g.node[data-part="1"]').click()
    assert facts.get_attribute("aria-live") == "polite"
    assert page.locator(".minikv-caption").get_attribute("aria-live") == "polite"
    assert page.locator("[data-testid=slider]").get_attribute("aria-valuetext") == film.at(3).caption


def test_a_slot_of_a_page_says_which_page(widget):
    cache, pool = RadixCache(page_size=4), FreeListPool(3)
    with record(cache, pool) as film:
        cache.insert(range(8), pool.alloc(2))
    tab = widget(film.player().reel)
    one = tab.page.locator("#one")
    one.locator("[data-testid=first]").click()
    one.locator(".minikv-pool svg").click(position={"x": 1.5 * 44, "y": 26 + 22})
    assert one.locator(".minikv-facts .minikv-story").text_content() == "slot 4 · page 1"
    assert one.locator(".minikv-pool .minikv-ring").get_attribute("x") == "48"  # around the second cell


def test_the_end_of_a_node_is_that_node(widget):
    cache = RadixCache(evict_by="page")
    cache.insert([1, 2, 3], [0, 1, 2])
    with record(cache) as film:
        cache.evict(1)
    tab = widget(film.player().reel)
    tab.page.evaluate("model_one.set('index', 99); heard.one()")  # no further than the end
    one = tab.page.locator("#one")
    assert one.get_attribute("data-step") == "1"
    one.locator("g.node", has_text="end of n1").click()
    assert one.locator(".minikv-facts .minikv-story").text_content() == "node 1  [1 2]"
    assert tab.page.evaluate("told.at(-1)") == ["one", "clicked", 1]


def test_a_ghost_tells_the_story_of_the_node_that_it_was(tab, film):
    page = tab().page
    go_to(page, next(frame.step for frame in film if frame.op == "evict 1"))
    page.locator("g.node", has_text="evicted").click()
    assert "not in the tree at this step" in page.locator(".minikv-facts").text_content()
    assert "evicted by step" in page.locator(".minikv-events li").last.text_content()


def test_the_log_has_the_steps_so_far_marks_this_one_and_leads_there(tab, film):
    page = tab().page
    lines = page.locator(".minikv-line")
    assert lines.all_text_contents() == ["0. start"]
    go_to(page, 8)
    assert lines.all_text_contents() == [frame.caption for frame in film][:9]
    lines.nth(6).click()
    assert step(page) == 6
    assert page.locator(".minikv-line[aria-current]").text_content() == film.at(6).caption
    assert page.locator(".minikv-caption b, script#reel + b").count() == 0  # a remark is text, never markup


def test_sizes_follow(tab, film):
    page = tab().page
    go_to(page, 3)
    words = page.locator(".minikv-word").all_text_contents()
    assert words == [size_words(name, value) for name, value in film.at(3).sizes.items()]


def test_nodes_glide_and_ids_never_clash(tab):
    page = tab().page
    go_to(page, 3)
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    page.locator("[data-testid=next]").click()
    assert page.evaluate("document.getAnimations().length") >= 2
    assert page.locator(".minikv-scene [id]").count() == 0
    page.wait_for_function("document.getAnimations().length === 0")


def test_what_is_gone_fades_cannot_be_reached_and_leaves_nothing_behind(tab, film):
    page = tab().page
    last = next(frame.step for frame in film if frame.op == "evict 1")
    go_to(page, last)
    page.wait_for_function("document.getAnimations().length === 0")
    nodes = page.locator(".minikv-tree [data-part]").count()
    page.locator("[data-testid=next]").click()
    ghosts = page.locator(".minikv-tree [aria-hidden] [data-part]")
    assert ghosts.count() == 1
    assert page.locator(".minikv-tree [aria-hidden] [tabindex], .minikv-tree [aria-hidden] .node").count() == 0
    page.wait_for_function("document.getAnimations().length === 0")
    assert page.locator(".minikv-tree [data-part]").count() == nodes - 1


def test_a_picture_that_does_not_change_is_not_painted_again(tab, film):
    page = tab().page
    assert film.player().reel["panels"][0]["steps"][1] == 0  # alloc leaves the tree alone
    go_to(page, 0)
    page.evaluate("window.tree = document.querySelector('.minikv-tree svg')")
    page.locator("[data-testid=next]").click()
    assert page.evaluate("window.tree === document.querySelector('.minikv-tree svg')")


def test_a_node_starts_where_it_was_and_its_new_half_where_its_other_half_was(tab):
    page = tab(width=800).page
    go_to(page, 3)
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    middle = """(name) => {
        const box = document.querySelector(`.minikv-tree [data-part="${name}"] path`).getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    }"""
    was = page.evaluate(middle, "1")
    page.evaluate(
        """() => {
            document.querySelector("[data-testid=next]").click();
            document.getAnimations().forEach((one) => { one.pause(); one.currentTime = 0; });
        }"""
    )
    for name in ("1", "2"):
        assert page.evaluate(middle, name) == pytest.approx(was, abs=8), name  # boxes differ in height
        assert page.locator(f'.minikv-tree [data-part="{name}"]').evaluate("e => getComputedStyle(e).opacity") == "1"


def test_no_motion_for_who_wants_none(chromium, address):
    context = chromium.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    for _ in range(4):
        page.locator("[data-testid=next]").click()
        assert page.evaluate("document.getAnimations().length") == 0
    context.close()


@pytest.mark.parametrize("width", [1280, 480])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_jumps_sticks_out_or_is_hidden(tab, film, width, dark):
    page = tab(width=width, dark=dark).page
    tops = []
    for i in range(len(film)):
        go_to(page, i)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), i
        tops.append(page.evaluate("document.querySelector('.minikv-below').offsetTop"))
        caption = page.locator(".minikv-caption")
        assert caption.evaluate("e => e.scrollWidth <= e.clientWidth"), i
    assert len(set(tops)) == 1
    colours = page.evaluate(
        """() => ["caption", "scene"].map((name) => getComputedStyle(document.querySelector(`.minikv-${name}`)))
            .map((style) => [style.color, style.backgroundColor])"""
    )
    ink = "rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)"
    assert colours == [[ink, "rgba(0, 0, 0, 0)"]] * 2  # no white box on a dark page
    words = page.locator(".minikv-pool text").first
    assert words.evaluate("e => getComputedStyle(e).fill") == ink


def test_two_players_on_one_page_do_not_meet(widget, film):
    tab = widget(film.player().reel)
    one, two = tab.page.locator("#one"), tab.page.locator("#two")
    two.locator("[data-testid=next]").click()
    two.locator("[data-testid=next]").click()
    two.locator('g.node[data-part="1"]').click()
    assert (one.get_attribute("data-step"), two.get_attribute("data-step")) == ("0", "2")
    assert one.locator(".minikv-hint").count() == 1
    assert tab.page.evaluate("told") == [["two", "index", 1], ["two", "index", 2], ["two", "clicked", 1]]
    tab.page.evaluate("model_one.set('index', 3); heard.one()")
    assert one.get_attribute("data-step") == "3"
    one.locator("[data-testid=play]").click()
    tab.page.evaluate("ends.one()")
    assert tab.page.evaluate("Object.keys(heard)") == ["two"]  # and nobody calls it any more
    assert one.locator("[data-testid=play]").get_attribute("aria-label") == "play"


def test_it_goes_on_when_nobody_takes_its_changes(widget, film):
    tab = widget(film.player().reel, before="throw new Error('no kernel')")
    one = tab.page.locator("#one")
    one.locator("[data-testid=next]").click()
    one.locator("[data-testid=next]").click()
    one.locator('g.node[data-part="1"]').click()
    assert one.get_attribute("data-step") == "2"
    assert "node 1" in one.locator(".minikv-facts").text_content()


def test_a_row_of_pictures_is_played_by_the_same_player(widget):
    pool, steps = FreeListPool(3), []
    for n in (1, 2):
        steps.append((f"alloc({n})", draw(pool, new=pool.alloc(n))))
    tab = widget(play(steps).reel)
    one = tab.page.locator("#one")
    assert one.locator("[data-testid=count]").text_content() == "1 of 2"
    one.locator("[data-testid=next]").click()
    assert one.locator(".minikv-caption").text_content() == "2. alloc(2)"
    assert one.locator(".minikv-below, .minikv-facts").count() == 0
    one.locator(".minikv-scene svg").first.click()


# -- what is easily broken unseen -----------------------------------------------------------------------------------


def shown(page):
    return page.locator(".minikv-facts dd, .minikv-facts dt").all_text_contents()


def test_ranges_of_slots_do_not_break_after_their_hyphen(tab):
    page = tab().page
    go_to(page, 1)
    assert page.locator(".minikv-caption").text_content() == "1. alloc 4: slots 0\u20113"
    assert page.locator(".minikv-room").get_attribute("aria-hidden") == "true"  # it only keeps the room


def test_the_facts_of_a_node_are_all_there_after_a_part_of_them_changed(tab):
    page = tab().page
    go_to(page, 2)
    page.locator('g.node[data-part="1"]').click()
    assert shown(page) == ["4 tokens", "1 2 3 4", "slots", "0-3 · why slot 0?", "locks", "none · used by this step"]
    go_to(page, 4)  # split, and locked at step 3
    assert shown(page) == [
        "2 tokens",
        "3 4",
        "slots",
        "2-3 · why slot 2?",
        "locks",
        "1 · last used at step 2, 2 steps ago",
    ]
    go_to(page, 3)
    assert shown(page)[-1] == "1 · last used at step 2, 1 step ago"
    go_to(page, 6)
    page.locator('g.node[data-part="3"]').click()
    assert shown(page)[0] == "1 token"


def test_the_first_slot_has_one_neighbour(tab):
    page = tab().page
    go_to(page, 0)
    page.locator(".minikv-pool svg").click(position={"x": 20, "y": 48})
    assert page.locator(".minikv-beside button").all_text_contents() == ["slot 1"]


@pytest.mark.parametrize("where", [{"x": 2, "y": 26 + 66}, {"x": 358, "y": 48}, {"x": 60, "y": 10}])
def test_a_click_beside_the_cells_chooses_none(tab, where):
    """Left of the second row, right of the first one, and on the heading."""
    page = tab().page
    go_to(page, 0)
    page.locator(".minikv-pool svg").click(position=where)
    assert page.locator(".minikv-hint").count() == 1


def test_a_ring_stands_around_its_node(tab):
    page = tab().page
    go_to(page, 3)
    page.locator('g.node[data-part="1"]').click()
    size = "e => { const b = e.getBBox(); return [b.x, b.y, b.width, b.height]; }"
    node = page.locator('.minikv-tree [data-part="1"]')
    ring, box = node.locator(".minikv-ring").evaluate(size), node.locator("path").evaluate(size)
    assert ring == [box[0] - 6, box[1] - 6, box[2] + 12, box[3] + 12]


def test_a_slot_beyond_the_cells_has_a_story_and_no_ring(widget):
    pool = FreeListPool(600)
    cache = RadixCache()
    with record(cache, pool) as film:
        cache.insert([1], [550])
    tab = widget(film.player().reel)
    one = tab.page.locator("#one")
    one.locator("[data-testid=next]").click()
    one.locator("g.node", has_text="n1").click()
    assert one.locator(".minikv-pool .minikv-ring").count() == 0


def test_a_node_that_holds_no_numbers_has_no_slot_to_ask_about(widget):
    class Node:
        children, tokens, slots = (), [1], ["x"]

    class Tree:
        def __init__(self):
            self.root = Node()
            self.root.children = [Node()]

        def match_prefix(self, tokens):
            return None

    with record(Tree()) as film:
        pass
    tab = widget(film.player().reel)
    one = tab.page.locator("#one")
    one.locator('g.node[data-part="1"]').click()
    assert one.locator(".minikv-facts dd button").count() == 0


def test_lines_fade_in_and_a_ghost_stands_where_its_node_was(tab, film):
    page = tab().page
    evicted = next(frame.step for frame in film if frame.op == "evict 1")
    go_to(page, evicted)
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    place = "e => { const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }"
    was = page.locator("g.node", has_text="evicted").evaluate(place)
    page.evaluate(
        """() => {
            document.querySelector("[data-testid=next]").click();
            document.getAnimations().forEach((one) => { one.pause(); one.currentTime = 0; });
        }"""
    )
    ghost = page.locator(".minikv-tree [aria-hidden] [data-part]").evaluate(place)
    assert ghost == pytest.approx(was, abs=1)
    assert page.locator(".minikv-tree .lines").evaluate("e => getComputedStyle(e).opacity") == "0"


def test_a_fast_film_glides_no_longer_than_its_steps(tab):
    """The bar of sizes has transitions of its own, which do not count."""
    page = tab().page
    go_to(page, 3)
    page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    page.locator("[data-testid=speed]").select_option("240")
    page.locator("[data-testid=play]").click()
    times = page.wait_for_function(
        """() => {
            const glides = document.getAnimations().filter((one) => !(one instanceof CSSTransition));
            return glides.length ? glides.map((one) => one.effect.getTiming().duration) : null;
        }"""
    )
    assert set(times.json_value()) == {144}


def test_a_film_that_is_hidden_moves_nothing_and_fails_nowhere(tab):
    page = tab().page
    page.evaluate("document.getElementById('film').style.display = 'none'")
    go_to(page, 3)
    go_to(page, 4)
    assert page.evaluate("document.getAnimations().length") == 0


def test_the_tree_and_the_pool_have_the_room_that_they_need(tab, film):
    """Side by side where there is room; the tree is enlarged, and the pool keeps its size."""
    page = tab().page
    box = "e => { const b = e.getBoundingClientRect(); return [b.left, b.right, b.width]; }"
    tree, pool = (page.locator(f".minikv-{kind} > svg").evaluate(box) for kind in ("tree", "pool"))
    about = film.reel.panels
    assert tree[1] <= pool[0]
    assert pool[2] == about[1]["width"]
    assert tree[2] == pytest.approx(about[0]["width"] * min(1.6, max(1, 460 / about[0]["height"])), abs=1)
    beside = tab(width=640).page
    both = [beside.locator(f".minikv-{kind}").bounding_box() for kind in ("tree", "pool")]
    assert both[0]["y"] + both[0]["height"] <= both[1]["y"]  # one below the other
    narrow = tab(width=320).page.locator(".minikv-tree > svg").evaluate(box)
    assert narrow[2] >= about[0]["width"] * 0.93 - 1, "its labels have 12 px"


LETTERS = """kind => [...document.querySelectorAll(`.minikv-${kind} svg text`)].map((text) => {
    const style = getComputedStyle(text), scale = text.getScreenCTM().a;
    return parseFloat(style.fontSize) * scale;
})"""


def test_letters_have_12_px_in_a_narrow_window_and_14_for_a_projector(tab):
    """Boxes of pools with at most 64 slots; a picture that is wider than the window scrolls in itself."""
    page = tab(width=390).page
    go_to(page, 5)
    small = [size for kind in ("tree", "pool") for size in page.evaluate(LETTERS, kind)]
    assert min(small) >= 11.9
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("[data-testid=large]").click()
    large = [size for kind in ("tree", "pool") for size in page.evaluate(LETTERS, kind)]
    assert len(large) == len(small)
    assert min(large) >= 14
    assert page.locator("[data-testid=large]").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("[data-testid=large]").click()
    assert [size for kind in ("tree", "pool") for size in page.evaluate(LETTERS, kind)] == small


@pytest.mark.parametrize(("leaves", "steps"), [(40, (40, 1, 20)), (6, (6, 1, 3))], ids=["tall", "wide"])
def test_a_large_tree_is_scrolled_to_what_the_step_is_about(widget, leaves, steps):
    """40 leaves grow to the right and are taller than the panel; 6 stand side by side and are wider than it."""
    cache = RadixCache()
    with record(cache) as film:
        for token in range(leaves):
            cache.insert([token, 100], [2 * token, 2 * token + 1])
    tab = widget(film.player().reel, width=300, height=500)
    tree = tab.page.locator("#one .minikv-tree")
    shown = """(e, key) => {
        const home = e.getBoundingClientRect(), it = e.querySelector(`[data-part="${key}"]`).getBoundingClientRect();
        return [Math.min(it.bottom, home.bottom) - Math.max(it.top, home.top) > 0.9 * it.height,
            Math.min(it.right, home.right) - Math.max(it.left, home.left) > 0.9 * it.width];
    }"""
    for step in steps:
        tab.page.evaluate("i => { model_one.set('index', i); heard.one(); }", step)
        tab.page.evaluate("document.getAnimations().forEach((one) => one.finish())")
        assert tree.evaluate(shown, str(step)) == [True, True], step
    place = "e => [e.scrollLeft, e.scrollTop]"
    before = tree.evaluate(place)
    assert max(before) > 0
    tab.page.evaluate("i => { model_one.set('index', i); heard.one(); }", steps[-1] + 1)
    assert tree.evaluate(shown, str(steps[-1] + 1)) == [True, True]
    assert tree.evaluate(place) == before  # it was in view already


def test_the_log_keeps_its_line_in_view_and_the_focus_on_it(tab, film):
    page = tab().page
    page.locator(".minikv-line").first.focus()
    for _ in film.frames[1:]:
        page.keyboard.press("ArrowRight")
    last = len(film) - 1
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "step"
    assert page.evaluate(FOCUSED) == film.at(last).caption
    tabs = page.locator(".minikv-line").evaluate_all("all => all.map((line) => line.tabIndex)")
    assert tabs == [-1] * last + [0]
    inside = """() => {
        const log = document.querySelector(".minikv-log").getBoundingClientRect();
        const line = document.querySelector(".minikv-line[aria-current]").getBoundingClientRect();
        return line.top >= log.top && line.bottom <= log.bottom;
    }"""
    assert page.evaluate(inside)
    page.locator("[data-testid=first]").click()
    go_to(page, 9)
    assert page.evaluate(inside)


STOPS = {
    "a line of the log": lambda page: page.locator(".minikv-line").nth(1).click(),
    "the slider": lambda page: go_to(page, 2),
    "a step back": lambda page: page.locator("[data-testid=prev]").click(),
    "the first step": lambda page: page.locator("[data-testid=first]").click(),
    "the End key": lambda page: page.locator(".minikv-player").press("End"),
}


@pytest.mark.parametrize("how", STOPS)
def test_whatever_goes_to_a_step_stops_the_playing(tab, how):
    page = tab().page
    page.locator("[data-testid=speed]").select_option("2400")
    page.locator("[data-testid=play]").click()
    STOPS[how](page)
    assert page.locator("[data-testid=play]").get_attribute("aria-label") == "play"


def test_there_is_no_step_after_the_last_and_the_browser_keeps_its_own_keys(tab, film):
    page = tab().page
    page.locator("[data-testid=next]").click()
    assert page.locator("[data-testid=slider]").input_value() == "1"
    go_to(page, len(film) - 1)
    page.locator("[data-testid=next]").click()
    assert step(page) == len(film) - 1
    page.locator(".minikv-player").focus()
    page.keyboard.press("Meta+ArrowLeft")
    assert step(page) == len(film) - 1


def test_the_bar_of_sizes_has_the_shares_and_no_border_where_there_is_nothing(tab, film):
    page = tab().page
    go_to(page, 3)
    sizes = film.at(3).sizes
    widths = page.locator(".minikv-piece").evaluate_all("all => all.map((piece) => parseFloat(piece.style.width))")
    assert widths == pytest.approx([100 * value / sum(sizes.values()) for value in sizes.values()], abs=0.01)
    empty = page.locator(".minikv-piece").evaluate_all("all => all.map((p) => p.classList.contains('minikv-none'))")
    assert empty == [not value for value in sizes.values()]


def test_a_node_is_a_button_to_a_screen_reader(tab):
    page = tab().page
    assert page.get_by_role("button", name="node root").count() == 1


SCREENS = [(1280, False), (390, True), (1280, True), (390, False)]


BY_NIGHT = [pytest.param(*screen, marks=pytest.mark.nightly) for screen in SCREENS[2:]]


@pytest.mark.parametrize(("width", "dark"), [*SCREENS[:2], *BY_NIGHT])
def test_axe_finds_nothing_serious(tab, film, width, dark):
    page = tab(width=width, dark=dark).page
    for i in (0, 4, len(film) - 1):
        go_to(page, i)
        page.evaluate("document.getAnimations().forEach((one) => one.finish())")
        assert serious_findings(page) == []
    page.locator("g.node").last.click()
    assert serious_findings(page) == []


@pytest.mark.parametrize(("width", "dark"), [*SCREENS[:2], *BY_NIGHT])
def test_a_film_opens_on_a_frame_with_something_in_it_and_play_beside_it(tab, width, dark):
    page = tab(width=width, dark=dark).page
    play, scene = page.locator("[data-testid=play]"), page.locator(".minikv-scene")
    assert page.locator("g.node").count() > 1
    assert scene.evaluate("e => e.inert && getComputedStyle(e).opacity < 0.5")
    assert serious_findings(page) == []
    button, room = play.bounding_box(), scene.bounding_box()
    assert button["y"] + button["height"] <= room["y"], "no node is below it"
    play.click()
    assert (step(page), page.locator("g.node").count()) == (0, 1)
    assert not scene.evaluate("e => e.inert")
    page.wait_for_function("document.querySelector('.minikv-player').dataset.step === '1'")


def test_nothing_of_a_later_step_is_on_the_page(tab, film):
    page = tab().page
    go_to(page, 2)
    shown = page.locator(".minikv-player").evaluate("e => e.outerHTML")
    assert film.at(2).words in shown
    assert not [frame.words for frame in film if frame.step > 2 and frame.words in shown]


def test_a_film_that_plays_by_itself_is_silent_and_sends_no_messages(widget, film):
    tab = widget(film.player().reel)
    page, one = tab.page, tab.page.locator("#one")
    one.locator("[data-testid=speed]").select_option("240")
    one.locator("[data-testid=play]").click()
    page.wait_for_function("document.querySelector('#one').dataset.step === '3'")
    assert one.locator(".minikv-caption").get_attribute("aria-live") == "off"
    assert page.evaluate("told.filter(([name]) => name === 'one').length") == 1  # at the start
    one.locator("[data-testid=play]").click()
    now = int(one.get_attribute("data-step"))
    assert page.evaluate("told.at(-1)") == ["one", "index", now]
    one.locator("[data-testid=next]").click()
    assert one.locator(".minikv-caption").get_attribute("aria-live") == "polite"


def test_the_faint_frame_is_gone_after_the_first_step(widget):
    cache = RadixCache()
    with record(cache) as film:
        cache.insert([1, 2, 3, 4], range(4))
        cache.match_prefix([1, 2, 9])
    assert (film.player().poster, film.player(still=1).poster) == (1, 1)
    tab = widget(film.player().reel)
    assert tab.page.locator("#one g.node").count() == 2
    tab.page.locator("#one [data-testid=next]").click()
    assert (tab.page.locator("#one").get_attribute("data-step"), tab.page.locator("#one g.node").count()) == ("1", 2)


def test_axe_finds_what_is_wrong(tab):
    page = tab().page
    go_to(page, 0)
    page.locator(".minikv-scene").evaluate("e => e.insertAdjacentHTML('beforeend', '<img src=\"data:image/png,\">')")
    assert [finding.split(":")[0] for finding in serious_findings(page)] == ["image-alt"]


def test_what_a_picture_shows_is_said(tab, film):
    page = tab().page
    go_to(page, 4)
    pool = page.locator(".minikv-pool svg")
    assert pool.get_attribute("aria-label").startswith(
        "FreeListPool: 8 of 12 slots free m 0 n2 m 1 n2 s 2 n1 s 3 n1 4 5"
    )
    assert page.locator(".minikv-tree svg").get_attribute("aria-label") == "tree"
    assert "Click a node or a slot" in page.locator(".minikv-facts").text_content()
    words = page.locator(".minikv-legend li").all_text_contents()
    assert [word[1:] for word in words] == ["evicted", "new", "matched", "split", "taken", "freed"]


def test_a_film_that_is_revealed_is_laid_out(widget, film):
    """In a closed fold it has no width and no height: the log can be scrolled to its line only afterwards."""
    tab = widget(film.player().reel)
    tab.page.evaluate("document.getElementById('one').style.display = 'none'")
    tab.page.wait_for_timeout(50)
    tab.page.evaluate("() => { model_one.set('index', 11); heard.one(); }")
    log = tab.page.locator("#one .minikv-log")
    assert log.evaluate("e => e.scrollTop") == 0
    tab.page.evaluate("document.getElementById('one').style.display = ''")
    tab.page.wait_for_function("document.querySelector('#one .minikv-log').scrollTop > 0")


def test_what_an_operation_called_is_in_a_fold(widget):
    manager = CacheManager(8)
    with record(manager) as film:
        manager.start([1, 2])
        with film.step("a remark"):
            pass
    tab = widget(film.player().reel)
    inside = tab.page.locator("#one .minikv-inside")
    tab.page.locator("#one [data-testid=next]").click()
    assert inside.evaluate("e => e.open") is False
    said = [words.replace("\N{NON-BREAKING HYPHEN}", "-") for words in inside.locator("li").all_text_contents()]
    assert said == list(film.at(1).inner_words)
    inside.locator("summary").click()
    assert serious_findings(tab.page, "#one .minikv-inside") == []
    assert inside.locator("summary").text_content() == f"calls inside: {len(film.at(1).inner_words)}"
    assert tab.page.locator("#one .minikv-notes").text_content() == ""
    tab.page.locator("#one [data-testid=next]").click()
    assert inside.locator("summary").text_content() == "no calls inside"


# -- another reel ---------------------------------------------------------------------------------------------------

GROWN = """(reel) => {
    model_one.set("reel", reel);
    model_one.set("index", reel.captions.length - 1);
    heard.one();
    document.getAnimations().forEach((one) => one.pause());
}"""


@pytest.fixture
def grown(widget):
    """A player of two prompts, and how it is given the reel of more of them."""

    def reel(*prompts):
        manager = CacheManager(8)
        with record(manager) as film:
            for prompt in prompts:
                with film.step(f"serve {prompt}"):
                    sequence = manager.start(prompt)
                    manager.advance(sequence)
                    manager.finish(sequence)
        return json.loads(json.dumps(film.reel.as_dict()))

    def grow(*prompts):
        tab.page.evaluate(GROWN, reel(*prompts))
        return tab.page.locator("#one")

    tab = widget(reel([1, 2, 3, 4], [7]))
    return grow


def test_another_reel_is_shown_at_its_step_and_can_be_stepped_through(grown):
    one = grown([1, 2, 3, 4], [7], [1, 2, 9])
    assert one.get_attribute("data-step") == "3"
    assert one.locator("[data-testid=count]").text_content() == "step 3 of 3"
    assert one.locator(".minikv-line").all_text_contents()[1:] == [f"{i}. serve {p}" for i, p in enumerate(
        ["[1, 2, 3, 4]", "[7]", "[1, 2, 9]"], start=1)]  # fmt: skip
    one.locator("[data-testid=prev]").click()
    assert one.locator(".minikv-caption").text_content() == "2. serve [7]"
    grown([1, 2, 3, 4])
    assert one.locator(".minikv-caption").text_content() == "1. serve [1, 2, 3, 4]"
    assert one.evaluate("e => [...e.children].map((part) => part.className)") == [
        "minikv-bar", "minikv-steady", "minikv-inside", "minikv-scene", "minikv-below"]  # fmt: skip


def test_after_another_reel_the_chosen_node_the_speed_and_the_fold_are_as_they_were(grown):
    one = grown([1, 2, 3, 4])
    one.locator("[data-testid=speed]").select_option("600")
    one.locator(".minikv-inside summary").click()
    one.locator('g.node[data-part="1"]').click()
    grown([1, 2, 3, 4], [1, 2, 9])
    assert one.locator(".minikv-story").text_content() == "node 1  [3 4]"
    assert "split" in one.locator(".minikv-events").text_content()
    assert one.locator('g.node[data-part="1"] .minikv-ring').count() == 1
    assert one.locator("[data-testid=speed]").input_value() == "600"
    assert one.locator(".minikv-inside").evaluate("e => e.open")
    assert one.evaluate("e => e.style.minHeight") == ""


def test_the_nodes_glide_into_another_reel_from_where_they_were(grown):
    one = grown([1, 2, 3, 4], [7])
    one.page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    place = "e => { const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }"
    node = one.locator('g.node[data-part="1"]')
    was = node.evaluate(place)
    grown([1, 2, 3, 4], [7], [1, 2, 9], [6])
    assert node.evaluate(place) == pytest.approx(was, abs=1)
    one.page.evaluate("document.getAnimations().forEach((one) => one.finish())")
    assert node.evaluate(place) != pytest.approx(was, abs=1)


def test_a_film_that_plays_when_another_reel_comes_stops_at_that_ones_step(grown):
    one = grown([1, 2, 3, 4], [7])
    one.locator("[data-testid=speed]").select_option("240")
    one.locator("[data-testid=play]").click()
    grown([1, 2, 3, 4], [7], [1, 2, 9])
    one.page.wait_for_timeout(400)
    assert one.get_attribute("data-step") == "3"
    assert one.page.evaluate("model_one.get('index')") == 3
    assert one.locator("[data-testid=play]").get_attribute("aria-label") == "play"


def test_another_reel_keeps_the_focus_and_the_large_setting(widget):
    cache = RadixCache()
    with record(cache) as film:
        cache.insert([1, 2], [0, 1])
    tab = widget(film.player().reel)
    page, one = tab.page, tab.page.locator("#one")
    one.locator("[data-testid=large]").click()
    one.locator("[data-testid=next]").focus()
    page.evaluate("reel => { model_one.set('reel', reel); heard.one(); }", film.reel.as_dict())
    assert page.evaluate("document.activeElement.dataset.testid") == "next"
    assert one.locator("[data-testid=large]").get_attribute("aria-pressed") == "true"


def test_space_opens_the_fold_of_what_was_called(widget):
    manager = CacheManager(8)
    with record(manager) as film, manager.request([1, 2, 3]) as sequence:
        manager.advance(sequence)
    tab = widget(film.player().reel)
    one = tab.page.locator("#one")
    one.locator("[data-testid=next]").click()
    one.locator("summary").focus()
    tab.page.keyboard.press(" ")
    assert one.locator("details").evaluate("e => e.open")
    assert one.locator("[data-testid=play]").get_attribute("aria-label") == "play"


def test_nothing_moves_under_the_mouse_at_the_first_step(widget):
    cache = RadixCache()
    with record(cache) as film:
        cache.insert([1, 2], [0, 1])
    one = widget(film.player().reel).page.locator("#one")
    place = "e => e.getBoundingClientRect().left"
    before = one.locator("[data-testid=next]").evaluate(place)
    one.locator("[data-testid=next]").click()
    assert one.locator("[data-testid=next]").evaluate(place) == before
