import pytest

from causeline.errors import Misuse
from causeline.models.failures import ModelRefused, ModelUnavailable, StreamCut
from causeline.models.fallback_model import FallbackModel
from causeline.models.messages import Message
from causeline.models.model import Request, Retracted, TextDelta
from causeline.models.retry_model import RetryModel
from causeline.models.scripted_model import ScriptedModel
from causeline.models.stream import collect, fold
from causeline.policy import RetryPolicy
from tests.models.clocks import StillClock

ASKED = Request([Message("user", "hi")])


def model(name, **item):
    return ScriptedModel([item], name=name)


async def test_the_first_that_answers_answers():
    reply = await collect(FallbackModel([model("a", status=503), model("b", text="ok"), model("c", text="no")]).stream(ASKED))
    assert (reply.text, reply.model) == ("ok", "b")
    assert [(one.model, one.code, one.wait) for one in reply.attempts] == [("a", "model_unavailable", None)]


async def test_a_fallback_in_mid_stream_starts_again_from_the_request():
    deltas = [delta async for delta in FallbackModel([model("a", text="x y z", cut_after=3), model("b", text="whole")]).stream(ASKED)]
    assert sum(isinstance(delta, Retracted) for delta in deltas) == 1
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["x ", "y ", "whole"]
    reply = fold(deltas)
    assert (reply.text, reply.model, reply.attempts[0].code) == ("whole", "b", "stream_cut")


async def test_a_refused_request_is_not_sent_elsewhere():
    with pytest.raises(ModelRefused) as caught:
        await collect(FallbackModel([model("a", status=400), model("b", text="never")]).stream(ASKED))
    assert [one["model"] for one in caught.value.facts["attempts"]] == ["a"]


async def test_a_spent_account_is_left_for_the_next():
    assert (await collect(FallbackModel([model("a", status=402), model("b", text="ok")]).stream(ASKED))).text == "ok"


async def test_when_nobody_answers_the_first_error_is_the_cause_and_lists_all():
    with pytest.raises(StreamCut) as caught:
        await collect(FallbackModel([model("a", text="x y", cut_after=2), model("b", status=503), model("c", status=401)]).stream(ASKED))
    assert [(one["model"], one["code"]) for one in caught.value.facts["attempts"]] == [
        ("a", "stream_cut"), ("b", "model_unavailable"), ("c", "auth"),
    ]  # fmt: skip
    assert isinstance(caught.value.__cause__, ModelRefused)


async def test_tries_of_the_retries_below_are_all_listed():
    clock, policy = StillClock(), RetryPolicy(max_attempts=2)
    models = [RetryModel(model(name, status=503), policy, clock=clock) for name in "ab"]
    with pytest.raises(ModelUnavailable) as caught:
        await collect(FallbackModel(models).stream(ASKED))
    assert [one["model"] for one in caught.value.facts["attempts"]] == ["a", "a", "b", "b"]


async def test_retries_and_fallback_show_every_try_in_the_reply():
    policy = RetryPolicy(max_attempts=2, base_delay=1.0, jitter_factor=0.0)
    first = RetryModel(model("a", text="x y z", cut_after=2), policy, clock=StillClock())
    reply = await collect(FallbackModel([first, model("b", text="ok")]).stream(ASKED))
    assert [(one.model, one.wait) for one in reply.attempts] == [("a", 1.0), ("a", None)]
    assert reply.text == "ok"


async def test_closing_closes_all():
    closed = []

    class Noting(ScriptedModel):
        async def aclose(self):
            closed.append(self.name)

    await FallbackModel([Noting([], name="a"), Noting([], name="b")]).aclose()
    assert closed == ["a", "b"]


def test_no_models_is_a_misuse():
    with pytest.raises(Misuse):
        FallbackModel([])
