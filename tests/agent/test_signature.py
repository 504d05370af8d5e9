"""The keyword parameters of Agent are the options, with the same values where none is given."""

import dataclasses
import inspect
from typing import Any

import pytest

import causeline
from causeline.agent.options import InvalidOptions, Options
from causeline.assemble import Agent
from causeline.models import ScriptedModel


def test_agent_names_every_option_with_its_default():
    parameters = {name: one for name, one in inspect.signature(Agent).parameters.items() if name not in ("model", "tools", "unknown")}
    options = {one.name: one.default for one in dataclasses.fields(Options) if one.name not in ("model", "base_dir")}
    assert {name: one.default for name, one in parameters.items()} == options
    assert {one.kind for one in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_every_option_reaches_the_agent():
    agent = Agent("scripted:echo", name="clerk", system="Hi.", max_tokens=7, node_types=["fact"], fallbacks=["scripted:echo"], max_steps=3)
    options = agent.options
    assert (options.name, options.system, options.max_tokens, options.node_types, options.fallbacks, options.max_steps) == (
        "clerk", "Hi.", 7, ("fact",), ("scripted:echo",), 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrong, right", [("output", "output_type"), ("instructions", "system"), ("sytem", "system"), ("maxsteps", "max_steps")]
)
def test_an_unknown_option_names_the_one_that_was_meant(wrong, right):
    untyped: Any = Agent
    with pytest.raises(InvalidOptions) as caught:
        untyped("scripted:echo", max_repeats=0, **{wrong: "x"})
    assert set(caught.value.findings) == {
        f"{wrong}: unknown option; did you mean {right}?",
        "max_repeats: expected a whole number from 1, got 0",
    }


def test_an_agent_says_what_it_is():
    def look(term: str) -> str:
        """Look."""
        return term

    assert repr(causeline.Agent("scripted:echo", tools=[look])) == "<agent agent: scripted:echo, tools look>"
    assert repr(causeline.Agent(ScriptedModel([]), name="bare")) == "<agent bare: scripted, tools none>"
