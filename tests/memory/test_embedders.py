"""Embedders by their names, and what agents do with one: what has the same meaning is found, and none of it fails a run."""

import asyncio
import json

import pytest

import causeline
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.errors import Invalid, Missing
from causeline.memory import MemoryStore, embedder
from causeline.memory.long_term import LongTermMemory
from tests.agent.stage import Turns, calls, stage
from tests.agent.test_memory import keep

MEANINGS = {"hot drink": (1.0, 0.0), "green tea": (0.98, 0.2), "bicycle": (0.0, 1.0)}


class EmbeddingServer:
    """An OpenAI-compatible server on loopback that knows three meanings. It answers the texts in another order than they came."""

    def __init__(self):
        self.requests = []
        self.answer = None

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length"))
        body = json.loads(await reader.readexactly(length))
        self.requests.append((head, body))
        rows = [{"index": place, "embedding": meaning(text)} for place, text in enumerate(body["input"])]
        said = self.answer if self.answer is not None else json.dumps({"data": rows[::-1]})
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-length: {len(said)}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{said}".encode()
        )
        await writer.drain()
        writer.close()


def meaning(text):
    return list(next((vector for words, vector in MEANINGS.items() if words in text.lower()), (0.5, 0.5)))


async def test_a_server_is_asked_in_batches_and_answers_in_the_order_of_the_texts(monkeypatch):
    monkeypatch.setattr("causeline.adapters.models.embedders.TEXTS", 2)
    monkeypatch.setenv("EMBED_KEY", "secret-secret")
    async with EmbeddingServer() as server:
        named = embedder("openai:small", base_url=server.url, api_key_env="EMBED_KEY", dimensions=2)
        texts = ["a bicycle", "green tea", "hot drink"]
        assert await named.embed(texts) == [meaning(text) for text in texts]
        await named.aclose()
    assert [body["input"] for _, body in server.requests] == [texts[:2], texts[2:]]
    assert all((body["model"], body["dimensions"]) == ("small", 2) for _, body in server.requests)
    assert all("authorization: bearer secret-secret" in head.lower() for head, _ in server.requests)
    assert all("post /v1/embeddings" in head.lower() for head, _ in server.requests)


@pytest.mark.parametrize("answer", ["[]", '{"data": []}', '{"data": [{"vector": 1}]}', "no json"])
async def test_an_answer_without_embeddings_costs_its_share_of_the_ranking(answer):
    async with EmbeddingServer() as server:
        server.answer = answer
        named = embedder("ollama:x", base_url=server.url)
        async with MemoryStore.open("memory://", embedder=named) as memory:
            await memory.put(("n",), "k", "green tea")
            assert [item.key for item in await memory.search(("n",), "tea")] == ["k"]
        await named.aclose()


def test_what_names_no_embedder_is_refused():
    for name in ("small", "nowhere:small", "openai:", "model2vec:"):
        with pytest.raises(Invalid, match="names no embedder"):
            embedder(name)
    with pytest.raises(Invalid, match="in this process"):
        embedder("model2vec:folder", base_url="http://127.0.0.1:1")
    with pytest.raises(Invalid, match="names no embedder"):
        causeline.Agent("openai:x", memory={"embedder": "nowhere:small"})
    with pytest.raises(Invalid, match=r"memory: embedder"):
        causeline.Agent("openai:x", memory={"embedder": 3})


async def test_a_package_that_is_not_there_is_named():
    with pytest.raises(Missing, match="pip install model2vec"):
        await embedder("model2vec:/nowhere").embed(["x"])


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_an_agent_finds_what_means_the_same(elsewhere):
    store = InMemoryStore()
    async with EmbeddingServer() as server, MemoryStore.open("memory://") as apart:
        option = {"embedder": {"model": "ollama:x", "base_url": server.url}, **({"store": apart} if elsewhere else {})}
        script = Turns([calls(keep("tea", "Ada likes green tea"), keep("ride", "Ada rides a bicycle"), text="ok")], [{"text": "?"}])
        async with stage(script, store=store, memory=option) as s:
            await s.run("Hello there")
            await s.run("Which hot drink does she want?", session="other")
            if not elsewhere:
                assert (await LongTermMemory(store.memory()).get(("memories",), "memory:tea")).source["step"] == 1
    assert s.model.last.memory == "Relevant memories:\n- Ada likes green tea"


async def test_an_embedder_that_is_gone_leaves_the_words():
    async with stage(
        Turns([calls(keep("tea", "Ada likes green tea"), text="ok")], [{"text": "?"}]),
        memory={"embedder": {"model": "ollama:x", "base_url": "http://127.0.0.1:9/v1"}},
    ) as s:
        first = await s.run("Hello there")
        await s.run("Which tea?", session="other")
    assert first.status == "succeeded"
    assert s.model.last.memory == "Relevant memories:\n- Ada likes green tea"
