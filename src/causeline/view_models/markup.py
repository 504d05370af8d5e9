"""HTML made of checked pieces.

Law: whatever is not Markup is text, and becomes text on the page: escaped, without control and direction characters. Only `tag`
makes Markup, so nothing a model, a tool or a file says can be read as markup.
"""

from collections.abc import Iterable
from html import escape
from typing import cast

from causeline.plain_text import clean

VOID = frozenset({"br", "hr", "img", "input", "meta", "line", "path", "rect", "circle"})


class Markup(str):
    """Text that is HTML already, because `tag` made it."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Children are Markup, text, numbers, None (left out) or iterables of those; attributes that are None or False are left
    out, True stands alone; `cls` is `class`, underscores become hyphens."""
    words = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False)
    if name in VOID:
        return Markup(f"<{name}{words}>" if not children else f"<{name}{words}>{join(children)}</{name}>")
    return Markup(f"<{name}{words}>{join(children)}</{name}>")


def join(children: object) -> Markup:
    """Children one after the other."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escape(clean(children)))
    if isinstance(children, Iterable):
        return Markup("".join(join(child) for child in cast("Iterable[object]", children)))
    return Markup(escape(str(children)))


def _attribute(key: str, value: object) -> str:
    name = "class" if key == "cls" else key.replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(clean(str(value)))}"'
