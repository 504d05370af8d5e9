import pytest

import causeline
from causeline.adapters.models import open_model
from causeline.errors import Invalid
from causeline.models import ScriptedModel, kinds, register
from causeline.models.kinds import UnknownModelKind, kind_of
from tests.adapters.chat_server import running, text_chunks

BROKEN = {"status": 503, "body": {"error": {"message": "down"}}}


@pytest.mark.parametrize(
    "model, provider, found",
    [
        ("openai:gpt-5-mini", None, ("openai", "gpt-5-mini")),
        ("gpt-5-mini", None, ("openai", "gpt-5-mini")),
        ("o3-mini", None, ("openai", "o3-mini")),
        ("chatgpt-4o-latest", None, ("openai", "chatgpt-4o-latest")),
        ("ollama:llama3:8b", None, ("ollama", "llama3:8b")),
        ("llama3:8b", "ollama", ("ollama", "llama3:8b")),
        ("deepseek:x", "deepseek", ("deepseek", "x")),
    ],
)
def test_a_name_says_its_kind(model, provider, found):
    assert kind_of(model, provider) == found
    if found[0] != "anthropic":
        assert causeline.Agent(model, provider=provider).options.model == model


@pytest.mark.parametrize(
    "model, provider", [("llama3", None), ("magic:x", None), ("openai:", None), ("x", "magic"), ("o0-x", None), ("", None)]
)
def test_what_is_not_known_is_refused_when_the_agent_is_built(model, provider):
    with pytest.raises(UnknownModelKind, match=r"There is|lacks the name"):
        kind_of(model, provider)
    if model:
        with pytest.raises(Invalid, match="model"):
            causeline.Agent(model, provider=provider)


@pytest.fixture
def mine():
    given = []

    def opened(name, *, base_url=None, stream=True):
        given.append((name, base_url, stream))
        return ScriptedModel([{"text": f"I am {name}"}])

    register("mine", opened)
    yield given
    del kinds._kinds["mine"]


def test_a_registered_kind_is_a_kind_like_any_other(mine):
    assert causeline.Agent("mine:a", base_url="http://x/y", stream=False).run_sync("?").answer == "I am a"
    assert mine == [("a", "http://x/y", False)]
    with pytest.raises(Invalid, match="has no use for api_key_env"):
        causeline.Agent("mine:a", api_key_env="KEY")
    with pytest.raises(Invalid, match="can be no kind"):
        register("Not a kind", open_model)


async def test_a_hook_sees_what_goes_to_every_server(monkeypatch):
    seen = []
    async with running() as first, running() as second:
        first.answers = [BROKEN]
        monkeypatch.setenv("VLLM_BASE_URL", second.url)
        agent = causeline.Agent("openai:a", base_url=first.url, max_retries=0, fallbacks=["vllm:b"], on_request=seen.append)
        assert (await agent.run("hi")).answer == "one two three"
        await agent.aclose()
    assert [(sent["model"], sent["url"]) for sent in seen] == [
        ("openai:a", f"{first.url}/chat/completions"), ("vllm:b", f"{second.url}/chat/completions"),
    ]  # fmt: skip
    assert seen[0]["body"] == first.requests[0]


@pytest.mark.parametrize("option", [{"on_request": print}, {"model_settings": {"top_p": 1}}])
def test_options_for_a_server_are_refused_where_there_is_none(option):
    with pytest.raises(Invalid, match=next(iter(option))):
        causeline.Agent(ScriptedModel([]), **option)
    with pytest.raises(Invalid, match=next(iter(option))):
        causeline.Agent("scripted:echo", **option)


@pytest.fixture
async def pair(monkeypatch):
    for name in ("KEY_A", "KEY_B", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, f"sk-of-{name.lower()}")
    async with running() as first, running() as second:
        first.answers = [BROKEN]
        second.answers = [[*text_chunks("second"), "[DONE]"]]
        yield first, second


@pytest.mark.parametrize(
    "fallback, key",
    [
        ({"model": "openai:b", "api_key_env": "KEY_B"}, "Bearer sk-of-key_b"),
        ({"model": "openai:b"}, None),
        ({"model": "openai:b", "api_key_env": "KEY_B", "auth_header": "api-key", "auth_prefix": ""}, "sk-of-key_b"),
        ({"model": "b", "provider": "vllm"}, None),
    ],
)
async def test_a_key_goes_to_the_server_it_was_given_for_alone(pair, fallback, key):
    first, second = pair
    agent = causeline.Agent(
        "openai:a", base_url=first.url, api_key_env="KEY_A", max_retries=0, fallbacks=[{**fallback, "base_url": second.url}]
    )
    assert (await agent.run("hi")).answer == "second"
    await agent.aclose()
    assert first.headers[0]["authorization"] == "Bearer sk-of-key_a"
    sent = second.headers[0]
    assert (sent.get("authorization") or sent.get("api-key")) == key
    assert "key_a" not in str(second.headers)
    assert "api_key" not in str(second.headers)


@pytest.mark.parametrize("fallback", ["b", "openai:b"])
async def test_a_fallback_of_the_same_kind_is_at_the_same_server(pair, fallback):
    first, _ = pair
    first.choose = lambda body: BROKEN if body["model"] == "a" else [*text_chunks("here"), "[DONE]"]
    agent = causeline.Agent("openai:a", base_url=first.url, api_key_env="KEY_A", max_retries=0, fallbacks=[fallback])
    assert (await agent.run("hi")).answer == "here"
    await agent.aclose()
    assert [sent["authorization"] for sent in first.headers] == ["Bearer sk-of-key_a"] * 2


async def test_a_fallback_of_another_kind_has_a_server_and_a_key_of_its_own(pair, monkeypatch):
    first, second = pair
    monkeypatch.setenv("VLLM_BASE_URL", second.url)
    agent = causeline.Agent("openai:a", base_url=first.url, api_key_env="KEY_A", max_retries=0, fallbacks=["vllm:b"])
    assert (await agent.run("hi")).answer == "second"
    await agent.aclose()
    assert "authorization" not in second.headers[0]


async def test_a_missing_key_is_told_when_a_run_starts_and_nothing_is_stored(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = causeline.Agent("gpt-5-mini")
    async with causeline.open("memory://") as runtime:
        with pytest.raises(causeline.CauselineError, match="OPENAI_API_KEY"):
            await runtime.start(agent, "hi", session="s")
        assert await runtime.sessions() == []
