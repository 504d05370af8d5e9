"""A waterfall as markup: one row a step or call, a bar on the axis, figures in columns."""

from collections.abc import Iterable

from causeline.view_models.figures import count, duration, money
from causeline.view_models.markup import Markup, tag
from causeline.view_models.waterfall import Bar

_SIGNS = {"model": "◆", "tool": "▪", "wait": "?", "takeover": "⇄", "step": "·"}


def timeline_html(bars: Iterable[Bar], *, linked: bool = True) -> Markup:
    """The rows, below a head that names the columns."""
    names = ("step", "what", "", "time", "tokens", "cost")
    head = tag("div", [tag("span", name) for name in names], cls="bar head")
    return tag("div", head, [_row(bar, linked=linked) for bar in bars], cls="waterfall")


def _row(bar: Bar, *, linked: bool) -> Markup:
    style = f"left:{bar.left * 100:.3f}%;width:{bar.width * 100:.3f}%"
    track = tag("span", tag("i", style=style, cls=f"k-{bar.kind}"), cls="track")
    failed = tag("em", f"{len(bar.attempts)} failed: {_attempts(bar)}") if bar.attempts else None
    sign = "✕" if bar.state == "failed" else _SIGNS[bar.kind]
    what = tag("span", tag("b", sign, aria_hidden="true"), f" {bar.label} ", tag("small", bar.detail), failed, cls="what")
    time = duration(bar.ms) if bar.ms is not None else "now" if bar.kind == "wait" else ""
    cells = (tag("span", "" if bar.depth else bar.place, cls="num"), what, track, tag("span", time, cls="num"))
    rest = (tag("span", count(bar.tokens) if bar.tokens else "", cls="num"), tag("span", money(bar.cost), cls="num"))
    go = f"step {bar.place}" if linked else None
    return tag("div", cells, rest, cls=f"bar k-{bar.kind} d{bar.depth} r-{bar.state}", data_go=go, data_row=linked, tabindex="-1")


def _attempts(bar: Bar) -> str:
    return ", ".join(" ".join(str(row[key]) for key in ("model", "code") if row.get(key)) for row in bar.attempts)
