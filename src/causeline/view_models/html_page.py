"""A session as one page to send around: nothing loaded from anywhere, no script, and the export itself inside.

Law: `export_in(page(...))` is the export, byte for byte.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from causeline.causal import Export
from causeline.causal.view.drawing import svg
from causeline.errors import Invalid
from causeline.plain_text import counted
from causeline.runtime.records import Link, Run
from causeline.view_models.entries import conversation
from causeline.view_models.figures import all_tokens, count, money, total_cost
from causeline.view_models.html_conversation import conversation_html
from causeline.view_models.html_parts import status
from causeline.view_models.html_timeline import timeline_html
from causeline.view_models.markup import Markup, tag
from causeline.view_models.waterfall import CallTimes, waterfall

_DRAWN = 400
"""So many causal nodes are drawn, the last ones."""
_STEPS = 2_000
"""So many steps are shown, the last ones; the export inside has all."""
_OPEN, _CLOSE = b'<script type="application/vnd.causeline.export" id="causeline-export">', b"</script>"
_BASE64 = re.compile(rb"[A-Za-z0-9+/=\s]*\Z")


def page(bundle: Export, data: bytes, links: Sequence[Link], runs: Mapping[str, Run], times: CallTimes | None = None) -> bytes:
    """The page of an export (`data`, read and verified as `bundle`), whose branch is `links`."""
    first = max(len(links) - _STEPS, 0)
    shown = links[first:]
    nodes = [node for link in shown for node in link.nodes]
    usages = [run.usage for run in runs.values() if run.usage]
    figures = " · ".join(
        part
        for part in (
            counted(len(bundle.checkpoints), "step"), counted(len(bundle.state), "causal node"), counted(len(runs), "run"),
            f"{count(sum(all_tokens(usage) for usage in usages))} tokens", money(total_cost(usages)),
        )
        if part
    )  # fmt: skip
    last = list(runs.values())[-1] if runs else None
    head = tag(
        "header",
        tag("h1", bundle.session),
        tag("div", status(last.status) if last else None, tag("span", figures, cls="quiet"), cls="line"),
        tag("div", tag("b", "✓ verified when it was written"), " head ", tag("code", bundle.head or "none"), cls="badge"),
        tag("div", "To check it again: causeline verify FILE.html --head ", bundle.head or "CK", cls="quiet"),
    )
    left_out = tag("p", f"The first {first:,} steps are not drawn here; the export inside has them.", cls="quiet") if first else None
    cut = tag("p", f"The last {_DRAWN} of {len(nodes):,} nodes.", cls="quiet") if len(nodes) > _DRAWN else None
    drawing = tag("div", Markup(svg(nodes[-_DRAWN:])), cls="drawing")
    body = (
        head,
        left_out,
        tag("section", tag("h2", "Conversation"), conversation_html(conversation(shown, first), linked=False)),
        tag("section", tag("h2", "Timeline"), timeline_html(waterfall(shown, first, times), linked=False)),
        tag("section", tag("h2", "Causes"), cut, drawing),
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    start = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"causeline: {bundle.session}"),
        tag("style", Markup(stylesheet())),
    )
    whole = f"<!doctype html>\n{tag('html', start, tag('body', tag('main', body, cls='page')), lang='en')}".encode()
    return whole + b"\n" + _OPEN + base64.b64encode(data) + _CLOSE + b"\n"


def export_in(data: bytes) -> bytes:
    """The export inside a page, or the data as it is where it is no page. Raises Invalid for a page with none."""
    if data.lstrip()[:9].lower() != b"<!doctype":
        return data
    start, end = data.rfind(_OPEN), data.rfind(_CLOSE)
    inside = data[start + len(_OPEN) : end] if start >= 0 else b""
    if not inside or not _BASE64.match(inside):
        raise Invalid("this page has no causeline export inside; `causeline export SESSION --html FILE` writes one that has")
    return base64.b64decode(inside)


@cache
def stylesheet() -> str:
    """The style of the pages."""
    return files("causeline.view_models").joinpath("pages.css").read_text("utf-8")
