"""Pictures and files: in what the user says, in what tools return, and in the log."""

import json

import causeline
from causeline.models import image
from tests.adapters.chat_server import END, call_chunk, running, text_chunks

PICTURE = image(b"png")


@causeline.tool(effects=False)
def snap() -> dict:
    """Take a picture."""
    return {"parts": [{"type": "text", "text": "taken"}, {"type": "image", "data": "aW1n", "mimeType": "image/png"}]}


async def test_a_picture_of_a_tool_is_shown_to_the_model_and_kept_in_the_log():
    async with running() as server:
        server.answers = [[call_chunk(0, "c1", "snap", "{}", "tool_calls"), END], [*text_chunks("a cat"), END]]
        agent = causeline.Agent("openai:m", base_url=server.url, tools=[snap])
        said = {"role": "user", "content": [{"type": "text", "text": "like this?"}, PICTURE]}
        async with causeline.open("memory://") as runtime:
            result = await (await runtime.start(agent, [said], session="s")).result()
            exported = json.loads(await runtime.export("s"))
            messages = await runtime.messages("s")
        await agent.aclose()
    assert result.answer == "a cat"
    user, _, told, shown = server.requests[1]["messages"]
    assert user["content"][1] == PICTURE
    assert told["content"] == "taken\n[1 attached: see the next message]"
    assert shown["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1n"}}
    kept = [node["payload"] for node in exported["state"]["nodes"] if node["kind"] in ("goal", "tool_result")]
    assert kept[0]["parts"][1] == PICTURE
    assert kept[1]["result"]["parts"][1]["data"] == "aW1n"
    assert messages[2].content[1]["data"] == "aW1n"


async def test_a_model_that_takes_no_pictures_says_so():
    async with running() as server:
        agent = causeline.Agent("deepseek:m", base_url=server.url, api_key_env="NOT_NEEDED_HERE")
        result = await agent.run([{"role": "user", "content": [PICTURE]}])
        await agent.aclose()
    assert (result.status, result.error["code"]) == ("failed", "part_not_taken")
    assert "deepseek:m does not take image_url" in result.error["message"]
