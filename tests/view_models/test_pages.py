"""Pages show text as text, and carry the export byte for byte."""

from html import unescape
from html.parser import HTMLParser

import pytest

import causeline
from causeline.causal import verify_export
from causeline.errors import Invalid
from causeline.models import ScriptedModel
from causeline.runtime.export_import import rows_of
from causeline.view_models.entries import conversation
from causeline.view_models.html_conversation import conversation_html, tail_html
from causeline.view_models.html_page import export_in, page
from causeline.view_models.html_timeline import timeline_html
from causeline.view_models.live_tail import LiveTail
from causeline.view_models.markup import Markup, tag
from causeline.view_models.waterfall import waterfall
from tests.view_models.told import HOSTILE, LOOK, clerk, told


class Elements(HTMLParser):
    """Every element and attribute a browser would make of a page."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes.update(key for key, _ in attrs)


def harmless(text):
    seen = Elements(text)
    return not seen.names & {"script", "img", "iframe", "object", "a", "form"} and not any(key.startswith("on") for key in seen.attributes)


def test_only_a_tag_is_markup():
    assert tag("p", HOSTILE, title=HOSTILE).count("<") == 2
    assert tag("p", [Markup("<b>x</b>"), "<b>"]) == "<p><b>x</b>&lt;b&gt;</p>"
    assert "\u202e" not in tag("p", HOSTILE)


async def hostile_session():
    @causeline.tool(name="look", effects=False)
    def tool(q: str) -> dict:
        """Look."""
        return {HOSTILE: HOSTILE, "q": [q]}

    call = {"name": "look", "arguments": {"q": HOSTILE}}
    unknown = {"name": HOSTILE, "arguments": {HOSTILE: 1}}
    model = ScriptedModel([{"text": HOSTILE, "calls": [call, unknown]}, {"text": HOSTILE}])
    agent = causeline.Agent(model, name="bold", tools=[tool], system=HOSTILE.replace("{{x}}", ""))
    async with told(agent, HOSTILE) as (runtime, _):
        return await runtime.links("s1"), await runtime.export("s1")


async def test_hostile_text_is_text_everywhere():
    links, data = await hostile_session()
    assert harmless(conversation_html(conversation(links)))
    assert harmless(timeline_html(waterfall(links)))
    bundle = verify_export(data)
    _, runs, branch, _ = rows_of(bundle, "default", "")
    whole = page(bundle, data, branch, {run.id: run for run in runs}).decode()
    assert whole.count("<script") == 1
    assert harmless(whole[: whole.index("<script")])


def test_hostile_events_are_text():
    tail = LiveTail()
    base = {"run_id": "r", "session_id": "s", "ts": HOSTILE, "seq": 1}
    for event in (
        {"type": "step_started", "step": 1, "node": HOSTILE},
        {"type": "text_message_content", "message_id": HOSTILE, "delta": HOSTILE},
        {"type": "reasoning_content", "message_id": "m", "delta": HOSTILE},
        {"type": "tool_call_delta", "message_id": "m", "index": 0, "name": HOSTILE, "delta": HOSTILE},
        {"type": "tool_call_start", "tool_call_id": "c", "name": HOSTILE, "client": False},
        {"type": "tool_progress", "tool_call_id": "c", "progress": {HOSTILE: HOSTILE}},
    ):
        tail.add({**base, **event})
    assert harmless(tail_html(tail))


async def test_a_page_loads_nothing_and_holds_the_export():
    async with told(clerk({"calls": [LOOK]}, {"text": "It is x."})) as (runtime, _):
        data = await runtime.export("s1")
        bundle = verify_export(data)
        _, runs, links, _ = rows_of(bundle, "default", "")
        whole = page(bundle, data, links, {run.id: run for run in runs})
    assert export_in(whole) == data
    assert export_in(data) == data
    text = whole.decode()
    assert "default-src 'none'" in unescape(text)
    assert not {"src", "href", "onclick"} & Elements(text).attributes
    assert "It is x." in text
    assert "<svg" in text
    with pytest.raises(Invalid, match="no causeline export inside"):
        export_in(b"<!doctype html><p>hello")


async def test_a_long_text_is_cut_and_says_how_to_see_all():
    long = "word " * 4000
    async with told(clerk({"text": long})) as (runtime, _):
        shown = conversation_html(conversation(await runtime.links("s1")))
    assert "show all 20,000 characters" in shown
    assert len(shown) < 8_000
