"""Results that are more than text: a model gets them as parts, everybody else their words."""

import causeline
from causeline.models import ScriptedModel
from causeline.models.parts import image
from causeline.models.transcript import result_content, result_words


class Watching:
    name = "watching"

    def __init__(self, *items):
        self.model = ScriptedModel(list(items))
        self.seen = []

    def stream(self, request):
        self.seen.append(list(request.messages))
        return self.model.stream(request)

    async def aclose(self):
        return


@causeline.tool(effects=False, max_chars=200)
def photo() -> dict:
    """Take a photo."""
    return {"parts": [{"type": "text", "text": "a photo " * 100}, image(b"png")]}


async def test_a_model_is_shown_parts_and_a_follower_reads_words():
    model = Watching({"calls": [{"id": "c1", "name": "photo", "arguments": {}}]}, {"text": "done"})
    agent = causeline.Agent(model, tools=[photo])
    async with causeline.open("memory://") as runtime:
        run = await runtime.start(agent, "go", session="s")
        assert (await run.result()).status == "succeeded"
        told = [event["content"] async for event in run.events() if event["type"] == "tool_call_result"]
        kept = [message for message in await runtime.messages("s") if message.role == "tool"]
    shown = model.seen[1][-1]
    assert [part["type"] for part in shown.content] == ["text", "image_url"]
    assert len(shown.content[0]["text"]) == 200
    assert "holds all of it]" in shown.content[0]["text"]
    assert kept[0].content == (({"type": "text", "text": "a photo " * 100}), image(b"png"))
    assert told == ["a photo " * 100 + "\n[image_url]"]


def test_what_is_no_list_of_parts_is_json():
    for result in (
        {"parts": []},
        {"parts": ["a"]},
        {"parts": [{"kind": "text"}]},
        {"parts": [{"type": "text", "text": 3}]},
        {"parts": 3, "b": 1},
    ):
        assert isinstance(result_content(result), str)
        assert result_words(result) == result_content(result)
