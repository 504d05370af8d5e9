"""A GraphProgram: the caller's words in channels, reducers, an answer, the channels afterwards, and how far a scatter is."""

import asyncio

import pytest

import causeline
from causeline.causal import verify
from causeline.errors import Invalid
from causeline.graph import Graph, Outcome, node
from causeline.policy import RetryPolicy
from tests.runtime.scenes import URLS, runtime, store_at

FOUR = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join")
THREE = dict.fromkeys(("success", "error", "empty"), "say")


@pytest.fixture(params=URLS)
def store(request, tmp_path):
    return store_at(request.param, tmp_path)


@node("urn:test:split", ("done",), writes=("items", "messages"))
def split(ctx):
    return Outcome("done", {"items": ctx.state["input"].split(), "count": 1})


@node("urn:test:shout", ("success", "error"))
async def shout(ctx):
    await asyncio.sleep(0)
    if ctx.item == "bad":
        raise ValueError("bad")
    if ctx.item == "twice" and ctx.attempt == 1:
        raise ConnectionError("once")
    return Outcome("success", {"loud": ctx.item.upper()})


@node("urn:test:join", ("done",))
def say(ctx):
    return Outcome("done", {"output": " ".join(ctx.state["words"]), "count": 1})


def add(old, new):
    return (old or 0) + new


def words(**options) -> causeline.GraphProgram:
    graph = (
        Graph("urn:test:dag:words")
        .node("split", split, {"done": "fan"})
        .scatter("fan", "items", FOUR, node=shout, concurrency=2, retry=RetryPolicy(max_attempts=2, base_delay=0))
        .gather("join", ["fan"], "map", THREE, mapping={"loud": "words"}, include_errors=False)
        .node("say", say, {"done": "end"})
        .terminal("end")
    )
    return causeline.GraphProgram(graph.build(), graph.nodes, name="words", reducers={"count": add}, **options)


async def test_the_callers_words_are_in_channels_and_the_channels_in_the_result(store):
    program = words()
    async with runtime(store, program) as rt:
        first = await (await rt.start("words", "a b", session="s")).result()
        assert (first.status, first.answer) == ("succeeded", "A B")
        assert {key: first.state[key] for key in ("input", "items", "words", "count")} == {
            "input": "a b",
            "items": ["a", "b"],
            "words": ["A", "B"],
            "count": 2,
        }
        second = await (await rt.start("words", "c", session="s")).result()
        assert (second.answer, second.state["count"]) == ("C", 4)
        assert [one["content"] for one in second.state["messages"]] == ["a b", "c"]


async def test_another_process_finds_what_the_run_began_with(store):
    async with runtime(store, words()) as rt:
        await (await rt.start("words", "a b", session="s")).result()
    async with runtime(store, words()) as rt:
        result = await (await rt.start("words", "c d", session="s")).result()
        assert (result.answer, result.state["input"], result.state["count"]) == ("C D", "c d", 4)


async def test_how_far_a_scatter_is_is_told_and_its_retries_are_on_record(store):
    async with runtime(store, words()) as rt:
        run = await rt.start("words", "a twice bad c", session="s")
        events = [event async for event in run.events()]
        told = [event for event in events if event["type"] == "item_finished"]
        assert {key: told[-1][key] for key in ("placement", "done", "total", "failed", "retried")} == {
            "placement": "fan",
            "done": 4,
            "total": 4,
            "failed": 1,
            "retried": 2,
        }
        retries = [(event["node"], event["path"], event["attempt"], event["code"]) for event in events if event["type"] == "node_retry"]
        assert sorted(retries) == [("fan", ["fan", 1], 1, "ConnectionError"), ("fan", ["fan", 2], 1, "ValueError")]
        facts = next(link.checkpoint.facts for link in await rt.links("s") if link.checkpoint.node == "fan")
        assert sorted((one["path"], one["n"], one["code"]) for one in facts["attempts"]) == [
            (["fan", 1], 1, "ConnectionError"),
            (["fan", 2], 1, "ValueError"),
        ]


async def test_what_was_said_is_in_the_history_and_the_log_is_read_without_the_program(store):
    async with runtime(store, words()) as rt:
        await (await rt.start("words", "a b", session="s")).result()
    async with runtime(store) as rt:
        assert [(one.role, one.content) for one in await rt.messages("s")] == [("user", "a b")]
        assert (await rt.branch("s")).channels["count"] == 2
        verify(await rt.export("s"))


async def test_options_of_a_program(store):
    program = words(input_key="input")
    assert (program.name, program.input_key) == ("words", "input")
    with pytest.raises(Invalid, match="unknown reducer"):
        causeline.GraphProgram(program.document, (), name="x", reducers={"a": "sum"})
