"""Whatever a caller's own functions raise ends neither the process nor hangs the run."""

import asyncio

import pytest
from pydantic import BaseModel, field_validator

import causeline
from causeline.models import ScriptedModel


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


ERRORS = [SystemExit(1), GeneratorExit(), KeyboardInterrupt(), Mute(), asyncio.CancelledError()]


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
