"""Tools of MCP servers: real processes, real HTTP, and what happens when they go away."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import causeline
from causeline.causal import canonical
from causeline.errors import Invalid, Missing
from causeline.models import ScriptedModel
from causeline.tools import Toolbox, ToolContext, Toolset, mcp
from causeline.tools.execute import execute

pytest.importorskip("mcp")
SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
CONTEXT = ToolContext(call_id="c")


class Opened:
    """The tools of one server while it is open."""

    def __init__(self, command=SERVER, **options):
        self.set = mcp(**({"command": command} if command else {}), **{"name": "t", **options})
        self.box = Toolbox([self.set])

    async def __aenter__(self):
        await self.box.open()
        return self

    async def __aexit__(self, *_):
        await self.box.close()

    async def call(self, name, arguments=None, context=CONTEXT):
        return await execute(self.box.get(f"t__{name}"), arguments or {}, context, name=name)


def alive(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)


async def test_the_tools_of_a_server_and_their_results():
    async with Opened() as server:
        assert isinstance(server.set, Toolset)
        hello = server.box.get("t__hello")
        assert (hello.description, hello.effects, hello.idempotent, hello.timeout) == ("Greet somebody.", False, True, 30)
        assert hello.parameters["properties"]["who"]["type"] == "string"
        assert server.box.get("t__pay").needs_started
        assert (await server.call("hello", {"who": "you", "times": 2})).result == "hello you hello you"
        assert (await server.call("table")).result == {"a": 1, "b": 2}
        failed = await server.call("fail", {"why": "no such city"})
        assert (failed.ok, "no such city" in failed.text) == (False, True)
        refused = await server.call("hello", {"who": "you", "times": "x"})
        assert refused.text.startswith("Invalid arguments for t__hello: $.times")
        pid = (await server.call("pid")).result
        assert alive(pid)
        told = []
        assert (await server.call("work", context=ToolContext(call_id="c", progress=told.append))).result == "worked"
        assert told == [{"progress": 1.0, "total": 2.0, "message": "half"}]
        late = await server.call("pay", context=ToolContext(call_id="c", timeout=0.2))
        assert (late.ok, "timed out after 0.2 s" in late.text) == (False, True)
        await pictures_and_resources_are_parts(server)
        await a_list_that_changes_is_asked_for_again(server)
        assert (await server.call("pid")).result == pid
    await until(lambda: not alive(pid))


async def pictures_and_resources_are_parts(server):
    kinds = [part["type"] for part in (await server.call("mixed")).result["parts"]]
    assert kinds == ["text", "image_url", "text", "file", "text"]
    parts = (await server.call("mixed")).result["parts"]
    assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert (parts[2]["text"], parts[4]["text"]) == ("a memo", "[resource memo:2: second another memo]")
    big = (await server.call("big")).result["parts"]
    assert big[0] == {"type": "text", "text": "big"}
    assert big[1]["text"].startswith("[left out: image_url of ")
    canonical(big)


async def a_list_that_changes_is_asked_for_again(server):
    before = server.box.get("t__hello")
    assert "t__extra" not in server.box
    assert (await server.call("grow")).result == "grown"
    async with asyncio.timeout(30):
        while "t__extra" not in server.box:
            await server.box.refresh()
            await asyncio.sleep(0.01)
    assert (await server.call("extra")).result == "extra was here"
    assert server.box.get("t__hello") is before


async def test_only_what_is_wanted_and_can_be_named():
    async with Opened(allow=["h*", "pid"]) as server:
        assert server.box.names() == ("t__hello", "t__pid")
    async with Opened([*SERVER, "odd"], allow=["a.b*", "xx*"]) as server:
        names = server.box.names()
        assert names[0] == "t__a_b_c"
        assert len(names[1]) == 64
        assert (await server.call(names[1].removeprefix("t__"))).result == "long"


async def test_the_environment_is_what_was_given(monkeypatch):
    monkeypatch.setenv("SECRET", "s3cret")
    async with Opened(env={"MINE": "yes", "TOKEN_OF": "${SECRET}"}) as server:
        got = [(await server.call("variable", {"name": name})).result for name in ("MINE", "TOKEN_OF", "SECRET")]
    assert got == ["yes", "s3cret", "not set"]
    with pytest.raises(causeline.CauselineError, match="the environment variable NOT_THERE is not set"):
        await Opened(env={"A": "${NOT_THERE}"}).box.open()


async def killed_in(server, name, effects):
    """Kill the server in the middle of a call."""
    pid = int((await server.call("pid")).result)
    running = asyncio.create_task(server.call(name))
    await until(lambda: effects.exists() and effects.read_text())
    os.kill(pid, signal.SIGKILL)
    return pid, await running


async def test_killed_in_the_middle_of_a_call_that_has_effects(tmp_path):
    effects = tmp_path / "effects"
    async with Opened(env={"EFFECTS": str(effects)}) as server:
        pid, lost = await killed_in(server, "pay", effects)
        assert (lost.ok, "went away while this ran" in lost.text) == (False, True)
        again = await server.call("pid")
        assert again.ok
        assert int(again.result) != pid
        assert effects.read_text() == "pay\n", "it was not run a second time"


async def test_killed_in_the_middle_of_a_call_that_only_reads(tmp_path):
    effects = tmp_path / "effects"
    async with Opened(env={"EFFECTS": str(effects)}) as server:
        _, found = await killed_in(server, "look", effects)
        assert (found.result, effects.read_text()) == ("looked", "look\nlook\n")


async def test_one_that_died_while_nobody_asked_is_back_with_the_next_call():
    async with Opened() as server:
        pid = int((await server.call("pid")).result)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: server.set._connection.over)
        after = await asyncio.gather(*(server.call("pid") for _ in range(3)))
        assert all(each.ok for each in after)
        assert len({each.result for each in after}) == 1


@pytest.mark.parametrize(
    "command, words",
    [
        (["no-such-program"], "cannot be reached: .*No such file"),
        ([sys.executable, "-c", "import sys; sys.exit('key missing')"], "cannot be reached: .*; it said: key missing"),
        ([*SERVER, "silent"], r"did not answer within 1\.5 s; it said: busy with something else"),
    ],
)
async def test_a_server_that_does_not_come_up_says_why(command, words):
    agent = causeline.Agent(ScriptedModel([{"text": "end"}]), tools=[mcp(command, name="files", timeout=1.5)])
    result = await agent.run("go")
    assert (result.status, result.error["code"]) == ("failed", "toolset_failed")
    import re

    assert re.search(f"the tools of files cannot be opened: the MCP server files {words}", result.error["message"], re.DOTALL)


@pytest.mark.parametrize(
    "options, place",
    [
        ({}, "command"),
        ({"command": ["a"], "url": "http://x"}, "command"),
        ({"command": "one text"}, "command"),
        ({"command": []}, "command"),
        ({"url": "ftp://x"}, "url"),
        ({"command": ["a"], "name": "a b"}, "name"),
        ({"command": ["a"], "timeout": 0}, "timeout"),
        ({"command": ["a"], "allow": "*"}, "allow"),
        ({"command": ["a"], "headers_env": {"A": "B"}}, "headers_env"),
        ({"url": "http://x", "env": {"A": "B"}}, "env"),
        ({"url": "http://x", "headers_env": {"A": 3}}, "headers_env"),
    ],
)
def test_what_is_wrong_is_said_at_once(options, place):
    with pytest.raises(Invalid) as found:
        mcp(**{"name": "t", **options})
    assert [line.partition(":")[0] for line in found.value.findings] == [place]


class HttpServer:
    def __init__(self, port="", **env):
        self.process = subprocess.Popen(
            [*SERVER, "http", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **env}
        )
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


async def test_over_http_with_a_header_from_the_environment(monkeypatch):
    with HttpServer(TOKEN="open sesame") as http:
        monkeypatch.setenv("MY_TOKEN", "open sesame")
        async with Opened(None, url=http.url, headers_env={"X-Token": "MY_TOKEN"}) as server:
            assert (await server.call("hello", {"who": "you"})).result == "hello you"
            assert (await server.call("fail", {"why": "no"})).ok is False
        for headers in ({}, {"X-Token": "NOT_THERE"}):
            with pytest.raises(causeline.CauselineError):
                await Opened(None, url=http.url, headers_env=headers).box.open()


async def test_a_server_over_http_that_goes_away_comes_back():
    with HttpServer() as http:
        server = Opened(None, url=http.url, timeout=5)
        await server.box.open()
        assert (await server.call("hello", {"who": "you"})).ok
    gone = await server.call("hello", {"who": "you"})
    assert gone.ok is False
    assert "t " in gone.text
    with HttpServer(http.port):
        assert (await server.call("hello", {"who": "again"})).result == "hello again"
        await server.box.close()


MANIFEST = """
[agent]
name = "bot"
model = "scripted:script.json"
use_tools = ["t__h*"]
[graph]
type = "react"
[[mcp]]
name = "t"
command = [{command}]
timeout = 20
"""


def manifest(folder, text=None):
    command = ", ".join(f"'{word}'" for word in (SERVER[0], "server.py"))
    (folder / "server.py").write_text(Path(SERVER[1]).read_text())
    (folder / "script.json").write_text('[{"calls": [{"name": "t__hello", "arguments": {"who": "you"}}]}, {"text": "done"}]')
    (folder / "agent.toml").write_text(text or MANIFEST.format(command=command))
    return folder / "agent.toml"


async def test_a_server_in_a_manifest_is_found_beside_it_and_again_from_the_stored_run(tmp_path):
    agent = causeline.load_agent(manifest(tmp_path))
    store = f"sqlite:///{tmp_path}/s.db"
    async with causeline.open(store) as runtime:
        run = await runtime.start(agent, "go", session="s")
        result = await run.result()
        assert (result.status, result.answer) == ("succeeded", "done")
        assert [row.call.result for row in await runtime.calls(run.id)] == ["hello you"]
        stored = (await runtime.run(run.id)).manifest
    assert stored["mcp"][0]["command"] == [SERVER[0], "server.py"]
    from causeline.assemble import agent_of

    assert (await agent_of(stored).run("go")).answer == "done"


def test_what_is_wrong_in_a_manifest_is_a_finding_with_its_line(tmp_path):
    text = MANIFEST.format(command="'a'") + '[[mcp]]\nname = "t"\nurl = "nowhere"\ncomand = ["x"]\n'
    with pytest.raises(Invalid) as found:
        causeline.load_agent(manifest(tmp_path, text))
    assert [(finding.place, finding.line) for finding in found.value.findings] == [
        ("mcp[1].name", 13),
        ("mcp[1].url", 14),
        ("mcp[1].comand", 15),
    ]


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("causeline.adapters.tools.mcp_tools.find_spec", lambda _name: None)
    with pytest.raises(Missing, match=r"install causeline\[mcp\]"):
        mcp(["a"], name="t")
