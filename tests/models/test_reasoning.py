import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeline.models.messages import Message
from causeline.models.model import Finish, ReasoningDelta, Request, Retracted, TextDelta, Usage
from causeline.models.reasoning import ReasoningSplitter, split_reasoning
from causeline.models.scripted_model import ScriptedModel
from causeline.models.stream import collect, fold
from causeline.models.thinking_model import ThinkingModel

PIECES = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<reasoning>",
    "</REASONING>",
    "<thinking>",
    "`",
    "```",
    "\n",
    "a",
    " b",
    "<",
    "[",
    "/",
]


@pytest.mark.parametrize(
    "text, reasoning, answer",
    [
        ("plain [1] <b>text</b>", "", "plain [1] <b>text</b>"),
        ("\n plain", "", "\n plain"),
        ("<think>plan</think>\n\nanswer", "plan", "answer"),
        ("[THINK]plan[/THINK]answer", "plan", "answer"),
        ("<reasoning>\nplan\n</reasoning>\nanswer", "plan", "answer"),
        ("<Thinking>plan</Thinking>answer", "plan", "answer"),
        ("\n<think>a</think>\n<think>b</think> c", "a\n\nb", "c"),
        ("plan without an opening\n</think>\n\nanswer", "plan without an opening", "answer"),
        ("<think>never closed TOOL_CALL {}", "never closed TOOL_CALL {}", ""),
        ("<think></think>answer", "", "answer"),
        ("answer first\n<think>then a plan", "then a plan", "answer first\n"),
        ("Well. <think>a plan</think> Done.", "a plan", "Well.  Done."),
        ("The tag <think> marks reasoning.", "", "The tag <think> marks reasoning."),
        ("Write `<think>` and `</think>` around it.", "", "Write `<think>` and `</think>` around it."),
        ("```\n<think>x</think>\n```", "", "```\n<think>x</think>\n```"),
        ("<think>use [THINK]? no </reasoning> yet ``` </think>x", "use [THINK]? no </reasoning> yet ```", "x"),
    ],
)
def test_what_is_thought_is_told_from_what_is_said(text, reasoning, answer):
    assert split_reasoning(text) == (reasoning, answer)
    reply = fold([TextDelta(text), Finish("stop")])
    assert (reply.reasoning, reply.text) == (reasoning, answer)


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.data())
def test_where_a_text_is_cut_changes_nothing(pieces, data):
    text = "".join(pieces)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    splitter, passed = ReasoningSplitter(), []
    for start, end in zip([0, *places], [*places, len(text)], strict=True):
        passed += splitter.feed(text[start:end])
        if splitter.voided:
            splitter.voided, passed = False, [(False, splitter.text)]
    passed += splitter.end()
    if splitter.voided:
        passed = [(False, splitter.text)]
    assert (splitter.reasoning, splitter.text) == split_reasoning(text)
    assert "".join(piece for thought, piece in passed if not thought) == splitter.text


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "text", ["<think>plan</think>\nanswer", "plan\n</think>answer", "```\n<think>\n``` a", "Well. <think>ok</think>!", "no"]
)
async def test_a_wrapped_model_tells_reasoning_as_reasoning(text, size):
    class Slow:
        name = "slow"

        async def stream(self, request):
            yield Usage(3, 1)
            for start in range(0, len(text), size):
                yield TextDelta(text[start : start + size])
            yield Usage(3, 2)
            yield Finish("stop")

        async def aclose(self):
            return

    deltas = [delta async for delta in ThinkingModel(Slow()).stream(Request([Message("user", "?")]))]
    last = max((place for place, delta in enumerate(deltas) if isinstance(delta, Retracted)), default=-1)
    told = "".join(delta.text for delta in deltas[last + 1 :] if isinstance(delta, TextDelta))
    thought = "".join(delta.text for delta in deltas[last + 1 :] if isinstance(delta, ReasoningDelta))
    assert (thought.strip(), told) == split_reasoning(text)
    reply = fold(deltas)
    assert (reply.text, reply.usage, reply.attempts) == (told, Usage(3, 2), ())


async def test_words_of_reasoning_are_kept_as_a_part_that_goes_back_to_nobody():
    reply = await collect(ScriptedModel([{"text": "<think>hm</think>yes"}]).stream(Request([Message("user", "?")])))
    assert reply.parts == ({"type": "text", "text": "hm"},)


def test_parts_are_kept_as_the_provider_gave_them_unless_no_log_could_hold_them():
    signed = {"provider": "p", "type": "thinking", "thinking": "hm \ud83d", "signature": "s"}
    reply = fold([ReasoningDelta("hm"), ReasoningDelta(part=signed), ReasoningDelta(part={"n": float("nan")}), Finish("stop")])
    assert (reply.reasoning, reply.parts) == ("hm", ({**signed, "thinking": "hm \ufffd"},))
