"""How Sphinx builds the site: `make site`. Every page works from the file system, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any

import minikv
from minikv.course.reel import script, style_sheet

project, author, release = "minikv", "The minikv authors", minikv.__version__
copyright = f"{author}. Code: MIT. Text and pictures: CC BY 4.0."
ITEM = re.compile(r"^(\d+)\. ", re.MULTILINE)
NAME = re.compile(r"`([A-Z]\w*)[\w.]*`")
HERE = Path(__file__).resolve().parent

extensions = ["myst_nb", "sphinx.ext.autodoc"]
nb_execution_mode, nb_merge_streams = "off", True  # pages.py has executed them
nb_code_prompt_show, nb_code_prompt_hide = "Show the {type}", "Hide the {type}"
myst_heading_anchors = 4
exclude_patterns = []
autodoc_member_order, autodoc_typehints, autodoc_preserve_defaults = "bysource", "none", True
default_role = "literal"

html_theme = "pydata_sphinx_theme"
html_title = "minikv"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "minikv"},
    "navigation_with_keys": False,  # the arrow keys step through a film
    "show_prev_next": True,
    "show_nav_level": 2,
    "navbar_end": ["theme-switcher"],
    "navbar_center": ["navbar-nav"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "back_to_top_button": False,  # on a phone it would cover the films
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_as_you_type": False,
}
html_sidebars = {name: [] for name in ("index", "start", "caches", "teachers", "search")}  # they have no neighbors
html_static_path, templates_path = ["static"], ["templates"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_show_search_summary = False  # from a file, a browser may not read the pages that were found
html_copy_source = html_show_sourcelink = html_show_sphinx = False
suppress_warnings = ["mystnb.unknown_mime_type"]
linkcheck_timeout, linkcheck_retries = 20, 2
linkcheck_anchors = False  # of a page, a part that a script adds later would count as missing


# -- what a link to a page shows -------------------------------------------------------------------------------------

ABOUT = (
    "Build the KV cache of an LLM serving engine, in short functions. A three-turn chat computes 1,036 tokens without "
    "a cache and 298 with one, and the answers are the same."
)
CARD = "_images/chapter_00.png"  # the picture of the page on the course


def add_card(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Give each page a description, and the title, the words and the picture of a card."""
    title = unescape(re.sub("<[^>]*>", "", context.get("title") or project))
    tags = {"name": {"description": ABOUT, "twitter:card": "summary_large_image"},
            "property": {"og:title": title if title == project else f"{title} · {project}", "og:description": ABOUT,
                         "og:type": "website", "og:image": context["pathto"](CARD, 1)}}  # fmt: skip
    lines = [f'<meta {kind}="{name}" content="{escape(said)}" />'
             for kind, names in tags.items() for name, said in names.items()]  # fmt: skip
    context["metatags"] = "\n".join([context.get("metatags", ""), *lines])


# -- films ------------------------------------------------------------------------------------------------------------


def add_player(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the player into each page with a film: inside it, because a browser loads no module from a file."""
    if "minikv-film-stage" in context.get("body", ""):
        code = script().replace("export default { render };", "").replace("export function", "function")
        begin = (HERE / "films.js").read_text("utf-8")
        context["body"] += f'<style>{style_sheet()}</style><script type="module">\n{code}\n{begin}</script>'


def as_slides(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> str | None:
    """Return the template of the slides of the lecture, for that page."""
    return "slides.html" if pagename == "slides" else None


# -- the reference ----------------------------------------------------------------------------------------------------


def as_rest(text: str) -> str:
    """Return a docstring of the package as reStructuredText: `names` as code, examples and indented blocks as they are.

    A class of the package becomes a link.

    >>> print(as_rest("Of `page`s, *all*.\\n\\n1. One\\n   rule.\\n2. Another."))
    Of ``page``\\ s, \\*all\\*.
    <BLANKLINE>
    1\\. One
    rule.
    <BLANKLINE>
    2\\. Another.
    """
    return "\n\n".join(map(_block, re.split(r"\n\s*\n", text.strip("\n"))))


def _block(block: str) -> str:
    if block.lstrip().startswith(">>>"):
        return block
    if all(line.startswith("    ") for line in block.split("\n")):
        return f"::\n\n{block}"
    if ITEM.match(block):
        block = "\n".join(line.strip() for line in block.split("\n"))
    parts = re.split(r"(`[^`]+`)", block)
    for at, part in enumerate(parts):
        if at % 2:
            name = NAME.fullmatch(part)
            parts[at] = f":py:obj:{part}" if name and name[1] in minikv.__all__ else f"`{part}`"
            parts[at] += "\\ " if parts[at + 1][:1].isalnum() else ""
        else:
            parts[at] = re.sub(r'([\\*_|"])', r"\\\1", part)  # quotes too: "lru" is what one types
    return ITEM.sub(r"\n\1\\. ", "".join(parts)).lstrip("\n")


def convert(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring that autodoc has read."""
    lines[:] = as_rest("\n".join(lines)).split("\n") if lines else []


def skip(app: Any, what: str, name: str, found: Any, is_skipped: bool, options: Any) -> bool | None:
    """Leave out the fields of a named tuple, whose docstrings say only their numbers."""
    return True if type(found).__name__ == "_tuplegetter" else None


def sign(app: Any, what: str, name: str, found: Any, options: Any, signature: str, result: str) -> Any:
    """Leave out the signature of a protocol, and of a widget: it is one of typing's, or of traitlets'."""
    return ("", None) if signature == "(*args, **kwargs)" else None


def setup(app: Any) -> None:
    """Connect them to Sphinx."""
    app.connect("html-page-context", add_player)
    app.connect("html-page-context", add_card)
    app.connect("html-page-context", as_slides)
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", sign)
    sys.setrecursionlimit(10_000)
