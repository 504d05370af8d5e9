"""Small pieces of pages: folded values, JSON trees, chips, ids to copy.

Law: big values are cut, and say how much is left out and where all of it is.
"""

import json
from typing import Any, cast

from causeline.plain_text import short
from causeline.view_models.markup import Markup, tag

CUT = 6_000
"""So many characters of a value are shown at first."""
_ROWS = 200
_SIGNS = {
    "succeeded": "✓", "ok": "✓", "failed": "✕", "cancelled": "◌", "interrupted": "?", "waiting": "?", "running": "▸", "queued": "…",
    "open": "▸", "awaiting": "?", "started": "▸", "denied": "⊘", "unknown": "‽", "superseded": "↷", "pending": "…", "empty": "·",
}  # fmt: skip


def status(word: str) -> Markup:
    """A status as a word with a sign, so that colour is not the only one."""
    return tag("span", tag("b", _SIGNS.get(word, "·"), aria_hidden="true"), " ", word, cls=f"status s-{word}")


def copied(value: str, label: str | None = None) -> Markup:
    """An id, short, with a button that copies all of it."""
    shown = label or (value if len(value) <= 16 else f"{value[:9]}…{value[-4:]}")
    return tag("span", tag("code", shown, title=value), tag("button", "copy", type="button", cls="copy", data_copy=value), cls="id")


def text_block(text: str, cls: str = "text", whole: str | None = None) -> Markup:
    """Text as it was written. `whole` is where all of a long one is: a link's target in the page's own words."""
    if len(text) <= CUT:
        return tag("div", text, cls=cls)
    more = f"show all {len(text):,} characters"
    rest = tag("details", tag("summary", more), tag("div", text[CUT:], cls=cls), cls="rest") if whole is None else all_of(whole, more)
    return tag("div", tag("div", text[:CUT], cls=cls), rest)


def all_of(whole: str, label: str) -> Markup:
    """A button that asks for all of a value."""
    return tag("button", label, type="button", cls="link", data_go=whole)


def folded(title: object, *body: object, opened: bool = False, cls: str = "fold") -> Markup:
    """Something that opens when its title is pressed."""
    return tag("details", tag("summary", title), *body, open=opened, cls=cls)


def value_block(value: Any, whole: str | None = None) -> Markup:
    """A JSON value: text as text, an object or a list as a tree."""
    if isinstance(value, str):
        return text_block(value, "text mono", whole)
    if isinstance(value, dict | list):
        return tree(value)
    return tag("div", json.dumps(value), cls="text mono")


def tree(value: Any, depth: int = 0) -> Markup:
    """An object or a list, folded below the second level."""
    if isinstance(value, dict):
        rows = [(str(key), below) for key, below in cast("dict[Any, Any]", value).items()]
        name = f"{{{len(rows)}}}"
    elif isinstance(value, list):
        rows = [(str(place), below) for place, below in enumerate(cast("list[Any]", value))]
        name = f"[{len(rows)}]"
    else:
        return tag("span", _leaf(value), cls=f"leaf t-{type(value).__name__}")
    if depth >= 12:
        return tag("span", short(json.dumps(value, ensure_ascii=False), 400), cls="leaf")
    shown = [_branch(key, below, depth) for key, below in rows[:_ROWS]]
    more = [tag("div", f"and {len(rows) - _ROWS:,} more", cls="quiet")] if len(rows) > _ROWS else []
    body = tag("div", shown, more, cls="tree")
    return body if depth == 0 else folded(name, body, opened=depth < 2, cls="node")


def _branch(key: str, value: Any, depth: int) -> Markup:
    return tag("div", tag("span", short(key, 80), cls="key"), tree(value, depth + 1), cls="branch")


def _leaf(value: Any) -> str:
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), 2_000)
