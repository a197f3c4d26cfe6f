"""The player on a page of ours: what can be done there, as `golden/player.txt` says it."""

import json
from pathlib import Path

from films_of_learners import Mine, Node
from scripted_films import FILMS

from minikv import FreeListPool, RadixCache, draw, play, record
from minikv.course.reel import script, style_sheet

SEEN = Path(__file__).with_name("player_seen.js").read_text("utf-8")
MODELS = """async ([code, reel]) => {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const { default: widget } = await import(url);
    Object.assign(window, { told: [], heard: {}, ends: {}, models: {}, broken: false, pressed: [], outside: [] });
    addEventListener("keydown", (e) => pressed.push(e), true);
    addEventListener("keydown", (e) => outside.push(e.key));
    for (const name of ["one", "two"]) {
        const values = { reel, index: 0, clicked: -1 };
        models[name] = { get: (key) => values[key], on: (key, f) => { heard[name] = f; },
            off: (key, f) => { if (heard[name] === f) delete heard[name]; },
            set: (key, value) => { values[key] = value; told.push([name, key, value]); },
            save_changes: () => { if (broken) throw new Error("no kernel"); } };
        ends[name] = widget.render({ model: models[name], el: document.getElementById(name) });
    }
}"""
CONTROLS = "first", "prev", "play", "next", "slider", "speed", "large"
SET = "(values) => { for (const name in values) models.one.set(name, values[name]); heard.one(); }"


def pictures():
    pool = FreeListPool(3)
    return play([(f"alloc({n})", draw(pool, new=pool.alloc(n))) for n in (1, 2)]).reel


def a_large_pool():
    cache = RadixCache()
    with record(cache, FreeListPool(600)) as film:
        cache.insert([1], [550])
    return film.player().reel


def no_numbers():
    with record(Mine(Node([1], ["x"]))) as film:
        pass
    return film.player().reel


REELS = {make.__name__.replace("_", " "): make for make in (pictures, a_large_pool, no_numbers)}


def reel_named(name):
    reel = REELS[name]() if name in REELS else FILMS[name]().player().reel
    return json.loads(json.dumps(reel))


def place(page, what, within="#one"):
    """Where something is: a node by its number, a control by its name, or what a selector finds."""
    if what == "player":
        return page.locator(within)
    if what.startswith("node "):
        what = f'g.node[data-part="{what[5:]}"]'
    elif what in CONTROLS:
        what = f"[data-testid={what}]"
    return page.locator(f"{within} {what}").first


def at(page, what):
    x, y = map(float, what.split())
    page.locator("#one .minikv-pool svg").click(position={"x": x, "y": y})


def slide(page, what):
    place(page, "slider").evaluate("(e, i) => { e.value = i; e.oninput({ target: e }); }", what)


ACTS = {
    "click": lambda page, what: place(page, what).click(),
    "two": lambda page, what: place(page, what, "#two").click(),
    "focus": lambda page, what: place(page, what).focus(),
    "key": lambda page, what: page.keyboard.press(what),
    "at": at,
    "slider": slide,
    "speed": lambda page, what: place(page, "speed").select_option(what),
    "wait": lambda page, what: page.clock.run_for(int(what)),
    "index": lambda page, what: page.evaluate(SET, {"index": int(what)}),
    "reel": lambda page, what: page.evaluate(SET, {"reel": reel_named(what)}),
    "no kernel": lambda page, _: page.evaluate("broken = true"),
    "end": lambda page, _: page.evaluate("ends.one()"),
}


def put(page, reel):
    """Show a reel in two widgets on one page, whose models keep what they were told."""
    page.goto("about:blank")
    page.mouse.move(0, 0)
    page.set_content(f"<style>{style_sheet()}</style><div id=one></div><div id=two></div>")
    page.evaluate(MODELS, [script(), reel])


class Script:
    """A page and what was seen there last: of each act, what is seen differs in a few lines."""

    def __init__(self, page, name):
        self.page = page
        put(page, reel_named(name))
        self.seen = page.evaluate(SEEN)

    def act(self, words):
        """Do what a line of a script says, and return what is seen now and was not before."""
        verb = next(verb for verb in ACTS if words.startswith(verb))
        ACTS[verb](self.page, words[len(verb) + 1 :])
        before, self.seen = self.seen, self.page.evaluate(SEEN)
        told = "told nothing" if self.seen[0] == before[0] else "told it"  # of a step, its number
        return [line for line in self.seen if line not in (*before[:-1], told)]
