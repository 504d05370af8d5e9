"""Whatever a caller's own functions raise ends neither the process nor hangs the run."""

import asyncio

import pytest
from pydantic import BaseModel, field_validator

import causeline
from causeline import graph, nodes
from causeline.models import ScriptedModel


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Gagged(Exception):
    def __str__(self):
        raise GeneratorExit


ERRORS = [SystemExit(1), GeneratorExit(), KeyboardInterrupt(), Mute(), Gagged(), asyncio.CancelledError()]


async def run(**options):
    agent = causeline.Agent(ScriptedModel([{"text": '{"x": 1}'}] * 4), **options)
    async with asyncio.timeout(20):
        return await agent.run("go")


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_listener_has_no_say_in_the_run(error):
    async def listen(_token):
        raise error

    def listen_at_once(_token):
        raise error

    for on_token in (listen, listen_at_once):
        result = await run(on_token=on_token)
        assert (result.status, result.answer) == ("succeeded", '{"x": 1}')


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_check_and_a_prompt_that_fail_fail_the_run_with_a_reason(error):
    class Checked(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, value):
            raise error

    def prompt(*_):
        raise error

    checked, prompted = await run(output_type=Checked), await run(system=prompt)
    assert (checked.status, checked.stop_reason, checked.error["code"]) == ("failed", "model_error", "invalid_output")
    assert type(error).__name__ in checked.error["message"]
    assert (prompted.status, bool(prompted.stop_reason)) == ("failed", True)
    assert type(error).__name__ in prompted.error["message"]


class Broken:
    """A model whose code raises, before its first delta or when it is asked for a stream."""

    name = "broken"

    def __init__(self, error, *, at_once):
        self.error, self.at_once = error, at_once

    def stream(self, _request):
        if self.at_once:
            raise self.error
        return self._deltas()

    async def _deltas(self):
        raise self.error
        yield

    async def aclose(self):
        """Nothing is held."""


def one_node(made):
    document = graph.Graph("urn:t:one").node("a", made).terminal("end").edge("a", "end").entry("main", "a").build()
    return causeline.GraphProgram(document, [made], name="one")


async def ended(program):
    async with asyncio.timeout(20), causeline.open("memory://", agents=[program], grace=0) as runtime:
        return await (await runtime.start(program, "go")).result()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_model_whose_code_raises_is_a_model_that_failed(error, at_once):
    model = Broken(error, at_once=at_once)
    for program in (causeline.Agent(model), causeline.Agent(model, graph="react-flat"), one_node(nodes.react_agent(model=model))):
        result = await ended(program)
        assert (result.status, result.stop_reason) == ("failed", "model_error")
        assert type(error).__name__ in (result.error["code"], result.error["message"].partition(":")[0])


@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_node_whose_code_raises_fails_and_nothing_else_does(error, kind):
    def fails(_ctx):
        raise error

    async def fails_later(_ctx):
        raise error

    made = graph.node("urn:t:a", ("ok",), inline=kind == "inline")(fails_later if kind == "async" else fails)
    result = await ended(one_node(made))
    assert (result.status, result.stop_reason) == ("failed", "tool_error")
    assert result.error["placement"] == "a"
