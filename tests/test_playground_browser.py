"""The playground as a class meets it: JupyterLab in a browser, typed into, pressed, undone; nothing leaves."""

import pytest
from browser import RUN_ALL, serious_findings

pytestmark = pytest.mark.browser

CELL = "from minikv.course.playground import playground\nplayground(capacity=16)"


@pytest.fixture(scope="module")
def tab(lab, chromium):
    with lab.playing(chromium, [CELL]) as tab:
        yield tab


class PlaygroundOnPage:
    """The playground on a page, by what a person sees of it."""

    def __init__(self, page):
        self.box = page.locator(".minikv-playground")
        self.box.wait_for()

    def press(self, name):
        self.box.get_by_role("button", name=name, exact=True).click()

    def field(self, label):
        return self.box.get_by_label(label, exact=True)

    def enter(self, label, text):
        self.field(label).fill(text)
        self.field(label).press("Enter")

    def do(self, verb, prompt):
        """Type a prompt and press a button, and wait until that is said."""
        self.field("prompt").fill(prompt)
        self.press(verb)
        self.says(f"{verb} [{prompt}]")

    def says(self, words, role="status"):
        self.box.get_by_role(role).filter(has_text=words).wait_for()

    @property
    def tree(self):
        """The tree, without what fades out of it."""
        return self.box.locator(".minikv-tree svg > g:not([aria-hidden])")

    def shows(self, words):
        self.tree.get_by_text(words, exact=True).first.wait_for()

    def is_at(self, step):
        """Its player shows this step."""
        self.box.locator(f".minikv-player[data-step='{step}']").wait_for()


@pytest.fixture
def room(tab):
    """A new playground: the cell has just been run again."""
    assert tab.page.evaluate(RUN_ALL)
    return PlaygroundOnPage(tab.page)


def test_type_enter_step_back_click_a_node_and_undo(room):
    """What was inserted stays while one steps back, and so does what was chosen."""
    player = room.box.locator(".minikv-player")
    for step, typed in enumerate(("1 2 3 4", "1 2 9"), start=1):
        room.enter("prompt", typed)
        room.is_at(step)
    room.shows("[3 4]")
    player.evaluate("document.getAnimations().forEach((one) => one.finish())")  # a click waits for what moves
    player.locator("g.node", has_text="n1").click()
    assert "split" in player.locator(".minikv-events").inner_text()
    player.get_by_test_id("prev").click()
    room.is_at(1)
    assert room.tree.get_by_text("[3 4]").count() == 0
    assert player.locator(".minikv-story").inner_text() == "node 1  [1 2 3 4]"
    assert player.locator("g.node .minikv-ring").count() == 1
    room.enter("prompt", "7")
    room.is_at(3)  # the cache was never taken back
    lines = player.locator(".minikv-line").all_inner_texts()
    assert lines[2:] == ["2. insert [1 2 9]: 2 of 3 tokens are cached; 1 token is new, 2 were already cached",
                         "3. insert [7]: none of it is cached; 1 token is new"]  # fmt: skip
    assert player.locator(".minikv-story").inner_text().startswith("node 1")  # it is still the chosen one
    room.press("undo")
    room.is_at(2)
    room.shows("[3 4]")


def test_a_click_never_overtakes_what_was_typed(room):
    for i in range(8):
        room.do("match", f"{i} 3 3")


@pytest.mark.parametrize("width", [1280, 800])
def test_nothing_is_cut_off_in_a_window(width, room, tab):
    tab.page.set_viewport_size({"width": width, "height": 720})
    room.field("scene").select_option(label="full: what can be evicted?")
    room.says("The pool is full")
    cut = """box => {
      const right = box.closest('.jp-OutputArea-output').getBoundingClientRect().right;
      return [...box.querySelectorAll('button, input, select, label, [role], svg')].filter(e => {
        if (e.closest('.minikv-panel, .minikv-log')) return false;  // these scroll, and a line of the log is cut short
        const r = e.getBoundingClientRect();
        return r.right > right + 1 || (e.tagName !== 'INPUT' && e.scrollWidth > e.clientWidth + 1 && e.clientWidth);
      }).map(e => e.outerHTML.slice(0, 90));
    }"""
    assert room.box.evaluate(cut) == []
    room.press("settings")
    room.enter("capacity", "200")
    room.says("set capacity 200")
    for i in range(7):
        room.do("insert", f"{i} 3 3 3 3 3 3")
    scrolls = """() => {
      const picture = document.querySelector('.minikv-playground .minikv-tree');
      const right = e => e.getBoundingClientRect().right;
      return getComputedStyle(picture).overflowX === 'auto'
        && right(picture) <= right(picture.closest('.jp-OutputArea-output')) + 1;
    }"""
    tab.page.wait_for_function(scrolls)  # the words arrive before the picture is drawn again


def test_it_can_be_used_without_a_mouse(room, tab):
    page = tab.page
    room.field("prompt").focus()
    page.keyboard.type("1 2 3")
    room.box.get_by_role("button", name="insert", exact=True).focus()
    page.keyboard.press("Space")
    room.says("insert [1 2 3]")
    scenes = room.field("scene")
    scenes.focus()
    page.keyboard.press("s")  # a list jumps to what begins with the letter
    assert scenes.evaluate("e => e.value") == "split under a lock"
    room.says("The locked node was cut in two")


def test_axe_finds_nothing_serious(room, tab):
    room.do("insert", "1 2 3")
    room.press("settings")
    assert serious_findings(tab.page, ".minikv-playground") == []
    tab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    tab.page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    room.do("match", "1 2 3")
    assert serious_findings(tab.page, ".minikv-playground") == []
    tab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
