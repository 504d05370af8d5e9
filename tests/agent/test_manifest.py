"""A manifest is understood whole or refused with every finding, its place and its line."""

import json
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeline.adapters.hcl import read_hcl
from causeline.agent.manifest.manifest import InvalidManifest, environment_findings, manifest_from_plain, read_manifest
from causeline.agent.manifest.source import toml_lines
from causeline.errors import Missing
from causeline.tools.execute import execute
from causeline.tools.tool import Origin, ToolContext

CONTEXT = ToolContext(call_id="c")
TOOLS = """
import shared_words
from causeline.tools.function import tool

@tool(effects=False)
def lookup(query: str) -> str:
    "Find a word."
    return shared_words.VALUE + query

def double(n: int) -> int:
    "Twice."
    return 2 * n

pair = [lookup, double]
"""
GOOD = """
[agent]
name = "librarian"
system = "You answer from the glossary. Today is {{ date }}."
model = "openai:gpt-5-mini"
tool_approval = "auto"
[graph]
type = "react"
[[tools]]
python = "tools:lookup"
approval = "ask"
[memory]
store = "sqlite:///memories.db"
namespace = ["users", "{{ owner }}"]
k = 3
[context]
user = "Ada"
since = 2026-01-02
[server.tokens]
secret-token = "ada"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "shared_words.py").write_text('VALUE = "v"\n')
    return tmp_path


def write(folder, text, name="agent.toml"):
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def findings(path, **more):
    with pytest.raises(InvalidManifest) as caught:
        read_manifest(path, **more)
    assert all(str(finding) in caught.value.message for finding in caught.value.findings)
    assert all(str(finding).startswith(str(path)) for finding in caught.value.findings)
    return [str(finding).removeprefix(f"{path.parent}/") for finding in caught.value.findings]


async def test_a_good_manifest(folder):
    manifest = read_manifest(write(folder, GOOD))
    assert (manifest.options.name, manifest.options.model, manifest.options.graph) == ("librarian", "openai:gpt-5-mini", "react")
    assert [(tool.name, tool.approval, tool.effects) for tool in manifest.tools] == [("lookup", "ask", False)]
    assert (await execute(manifest.tools[0], {"query": "x"}, CONTEXT)).result == "vx"
    assert manifest.tools[0].origin == Origin(str(folder / "tools.py"), "lookup")
    assert manifest.context == {"user": "Ada", "since": "2026-01-02"}
    assert manifest.tokens == {"secret-token": "ada"}
    assert manifest.options.memory == {"store": f"sqlite:///{folder}/memories.db", "namespace": ["users", "{{ owner }}"], "k": 3}
    assert manifest.options.base_dir == folder


@pytest.mark.parametrize(
    "ending, text", [(".toml", GOOD), (".hcl", 'agent "a" {\n  model = "scripted:echo"\n}\ngraph { type = "react" }\n')]
)
def test_a_byte_order_mark_and_foreign_line_ends_are_ignored(folder, ending, text):
    path = folder / f"agent{ending}"
    path.write_bytes(b"\xef\xbb\xbf" + textwrap.dedent(text).replace("\n", "\r\n").encode())
    assert read_manifest(path, readers={".hcl": read_hcl}).options.name in ("librarian", "a")


async def test_json_and_hcl_of_the_same_shape_say_the_same(folder):
    toml = read_manifest(write(folder, GOOD))
    data = {
        "agent": {"name": "librarian", "system": toml.options.system, "model": "openai:gpt-5-mini", "tool_approval": "auto"},
        "graph": {"type": "react"},
        "tools": [{"python": "tools:lookup", "approval": "ask"}],
        "memory": {"store": "sqlite:///memories.db", "namespace": ["users", "{{ owner }}"], "k": 3},
        "context": {"user": "Ada", "since": "2026-01-02"},
    }
    hcl = (
        """
        agent "librarian" {
          system = "You answer from the glossary. Today is {{ date }}."
          model  = "openai:gpt-5-mini"
          tool_approval = "auto"
        }
        graph { type = "react" }
        tools {
          python   = "tools:lookup"
          approval = "ask"
        }
        memory {
          store = "sqlite:///memories.db"
          namespace = ["users", "{{ owner }}"]
          k = 3
        }
        context { user = "Ada", since = "2026-01-02" }
    """.replace("{ user", "{\n user")
        .replace(", since", "\n since")
        .replace('02" }', '02"\n}')
    )
    by_json = read_manifest(write(folder, json.dumps(data), "agent.json"))
    by_hcl = read_manifest(write(folder, hcl, "agent.hcl"), readers={".hcl": read_hcl})
    assert toml.to_plain() == by_json.to_plain() == by_hcl.to_plain()


BAD = """\
[agent]
nam = "librarian"
system = \"\"\"
tool_approval = "not a key"
Hello {{ dat }}\"\"\"
temperature = "hot"
on_token = "x"
memory = "m"
graph = "react"
tool_approval = { "lookup" = "denyy" }

[graph]
typ = "react"

[[tools]]
python = "tools:lookp"
[[tools]]
python = "nowhere:x"
aproval = "ask"
[[tools]]
python = "broken:x"
[[tools]]
python = "tools:lookup"
timeout = -1
[tools.approval]
lookup = "sometimes"
[[tools]]
name = "no_reference"
[[tools]]
python = "tools:pair"
name = "two"

[[mcp]]
name = "files"
[memory]
url = "x"
[server]
port = 80
[unheard]
"""


def test_all_findings_come_at_once_with_line_and_place(folder):
    (folder / "broken.py").write_text("import os\n\nx = 1 / 0\n")
    assert findings(write(folder, BAD)) == [
        'agent.toml:1: agent.model: required; such as "openai:gpt-5-mini"',
        "agent.toml:2: agent.nam: unknown key; did you mean name?",
        "agent.toml:3: agent.system: line 2, column 7: unknown variable dat; did you mean date?",
        "agent.toml:6: agent.temperature: expected a number from 0, got 'hot'",
        "agent.toml:7: agent.on_token: can only be given in Python",
        "agent.toml:8: agent.memory: does not belong here; write [memory] store = ...",
        "agent.toml:9: agent.graph: does not belong here; write [graph] type = ...",
        f"agent.toml:10: agent.tool_approval: lookup: 'denyy' is not an approval mode; {WORDS}",
        'agent.toml:12: graph.type: required; write type = "react"',
        "agent.toml:13: graph.typ: unknown key; did you mean type?",
        "agent.toml:16: tools[0].python: tools has no lookp; did you mean lookup?",
        f"agent.toml:18: tools[1].python: no module nowhere in {folder}, and none installed",
        "agent.toml:19: tools[1].aproval: unknown key; did you mean approval?",
        "agent.toml:21: tools[2].python: broken.py:3: ZeroDivisionError: division by zero",
        "agent.toml:24: tools[3].timeout: expected seconds above 0, or none, got -1",
        f"agent.toml:25: tools[3].approval: lookup: 'sometimes' is not an approval mode; {WORDS}",
        'agent.toml:27: tools[4].python: required; write python = "module:function"',
        "agent.toml:29: tools[5]: tools:pair is 2 tools; a name or description is for one",
        "agent.toml:33: mcp[0]: MCP servers cannot be reached from here",
        "agent.toml:36: memory.url: unknown key; known are store, namespace, k, header, min_score, embedder",
        "agent.toml:38: server.port: unknown key; known are tokens",
        "agent.toml:39: unheard: unknown key; known are agent, graph, tools, mcp, memory, context, server",
    ]


HEAD = '[agent]\nmodel = "scripted:s.json"\n'
GRAPH = '[graph]\ntype = "react"\n'
LOOKUP = '[[tools]]\npython = "tools:lookup"\n'
PAIR = '[[tools]]\npython = "tools:pair"\n'
WORDS = 'use "auto", "ask", "deny", "interactive", a map of patterns or a function'


@pytest.mark.parametrize(
    "text, line",
    [
        ('[graph]\ntype = "react"\n', 'agent.toml: agent.model: required; such as "openai:gpt-5-mini"'),
        (HEAD, 'agent.toml: graph.type: required; write type = "react"'),
        (HEAD + '[graph]\ntype = "reakt"', "agent.toml:4: graph.type: no file reakt in"),
        (HEAD + "[graph]\ntype = 3", "agent.toml:4: graph.type: expected react, react-flat or the path of a document"),
        (
            HEAD + '[graph]\ntype = "react"\n[tools]\npython = "tools:lookup"',
            "agent.toml:5: tools: expected a list of tables; write [[tools]]",
        ),
        (HEAD + 'use_tools = ["lokup"]\n' + GRAPH + LOOKUP, "agent.toml:3: agent.use_tools: lokup: no such tool; did you mean lookup?"),
        (
            HEAD + 'tool_approval = { "lokup" = "ask" }\n' + GRAPH + LOOKUP,
            "agent.toml:3: agent.tool_approval: lokup: fits no tool; there are lookup",
        ),
        (HEAD + 'skills = ["none"]\n[graph]\ntype = "react"', "agent.toml:3: agent.skills: none: no such skill"),
        (HEAD + GRAPH + LOOKUP + PAIR, "agent.toml:7: tools[1]: two tools are named lookup"),
        (HEAD + '[graph]\ntype = "react"\n[server.tokens]\nabc = 3', "agent.toml:5: server.tokens: a token maps to the name of its owner"),
        ("agent = 3\n" + '[graph]\ntype = "react"', "agent.toml:1: agent: expected a table"),
        (HEAD + "model = 'again'\n", "agent.toml:3: not TOML: Cannot overwrite a value"),
        ("[agent\n", "agent.toml:1: not TOML: "),
        ('a = """\n', "agent.toml:1: not TOML: "),
    ],
)
def test_single_faults(folder, text, line):
    assert any(found.startswith(line) for found in findings(write(folder, text)))


@pytest.mark.parametrize(
    "text, line",
    [
        ('{"agent": 1,\n "agent": 2}', "agent.json: not JSON: the key 'agent' is there twice"),
        ('{"a": NaN}', "agent.json: not JSON: NaN is not a JSON number"),
        ('{\n"a": }', "agent.json:2: not JSON: Expecting value"),
        ("[]", "agent.json: not a manifest: expected one JSON object"),
        ("[" * 100_000, "agent.json: not JSON: "),
    ],
)
def test_faults_of_json(folder, text, line):
    assert findings(write(folder, text, "agent.json"))[0].startswith(line)


def test_faults_of_hcl_have_their_line(folder):
    def told(text):
        return findings(write(folder, text, "agent.hcl"), readers={".hcl": read_hcl})

    assert told('agent "a" {\n  model = env("X")\n}\n')[0].startswith('agent.hcl:2: agent.model: ${env("X")} is an expression')
    assert told('agent "a" {\n  model = \n}\n')[0].startswith("agent.hcl:2: not HCL: ")
    found = told(
        'agent "a" {\n  modle = "x"\n}\ngraph { type = "react" }\ntools { python = "tools:lookup" }\ntools {\n  python = "tools:nope"\n}\n'
    )
    assert "agent.hcl:2: agent.modle: unknown key; did you mean model?" in found
    assert "agent.hcl:7: tools[1].python: tools has no nope" in found


def test_hcl_values():
    plain = 'a = 1e3\n b = -2\n c = [1, ["t"]]\n d = { "k-*" = true, e = null }\n f = "$${x} \\"q\\""\n'
    data, _ = read_hcl('agent "x" {\n ' + plain + " g = <<-EOT\n    one\n      two\n  EOT\n}\n")
    assert data == {
        "agent": {"name": "x", "a": 1000.0, "b": -2, "c": [1, ["t"]], "d": {"k-*": True, "e": None}, "f": '${x} "q"', "g": "one\n  two"}
    }


def test_files_that_cannot_be_read(folder):
    with pytest.raises(Missing, match=r"none\.toml: no such file"):
        read_manifest(folder / "none.toml")
    with pytest.raises(Missing, match=r"install causeline\[hcl\]"):
        read_manifest(write(folder, "", "agent.hcl"))
    assert findings(write(folder, "", "agent.yaml")) == ["agent.yaml: a manifest ends in .toml, .json"]
    (folder / "bytes.toml").write_bytes(b"\xff")
    assert findings(folder / "bytes.toml")[0].startswith("bytes.toml: not UTF-8 text")


def test_overrides_are_checked_like_the_file(folder):
    path = write(folder, GOOD)
    assert read_manifest(path, {"model": "scripted:s.json"}).options.model == "scripted:s.json"
    assert "agent.toml:2: agent.max_steps: expected a whole number from 1, got 0" in findings(path, overrides={"max_steps": 0})


async def test_a_stored_manifest_needs_the_tool_files_and_nothing_else(folder):
    (folder / "careful.md").write_text("Be careful.")
    path = write(folder, GOOD.replace('tool_approval = "auto"', 'tool_approval = "auto"\nskills = ["careful.md"]'))
    plain = read_manifest(path, {"model": "scripted:s.json"}).to_plain()
    assert "secret-token" not in json.dumps(plain)
    path.unlink()
    (folder / "careful.md").unlink()
    (folder / "shared_words.py").write_text('VALUE = "now"\n')
    again = manifest_from_plain(json.loads(json.dumps(plain)))
    assert again.options.model == "scripted:s.json"
    assert again.options.skill_set()[0].text == "Be careful."
    assert again.tools[0].approval == "ask"
    assert (await execute(again.tools[0], {"query": "x"}, CONTEXT)).result == "nowx"
    assert again.to_plain() == plain
    (folder / "tools.py").unlink()
    with pytest.raises(InvalidManifest, match=r"tools\.py"):
        manifest_from_plain(plain)


def test_a_document_as_graph(folder):
    (folder / "graph.jsonld").write_text("{}")
    manifest = read_manifest(write(folder, HEAD + '[graph]\ntype = "graph.jsonld"'))
    assert manifest.options.graph == str(folder / "graph.jsonld")
    assert manifest_from_plain(manifest.to_plain()).options.graph == manifest.options.graph


async def test_tools_by_list_plain_function_path_and_installed_module(folder):
    (folder / "lib").mkdir()
    (folder / "lib" / "more.py").write_text("class Group:\n    @staticmethod\n    def hello(): return 'hi'\n")
    text = HEAD + '[graph]\ntype = "react"\n'
    text += "".join(
        f"[[tools]]\n{entry}\n"
        for entry in (
            'python = "tools:pair"\ntimeout = 3',
            'python = "lib/more.py:Group.hello"\nname = "hello"\ndescription = "Says hi."',
            'python = "causeline.tools:ask_human"',
        )
    )
    manifest = read_manifest(write(folder, text))
    assert [(tool.name, tool.timeout) for tool in manifest.tools] == [("lookup", 3), ("double", 3), ("hello", None), ("ask_human", None)]
    assert (await execute(manifest.tools[1], {"n": 2}, CONTEXT)).result == 4
    assert manifest.tools[2].description == "Says hi."
    assert [each["python"] for each in manifest.to_plain()["tools"]] == [
        f"{folder / 'tools.py'}:pair",
        f"{folder / 'lib' / 'more.py'}:Group.hello",
        "causeline.tools:ask_human",
    ]
    assert [tool.name for tool in manifest_from_plain(manifest.to_plain()).tools] == ["lookup", "double", "hello", "ask_human"]


def test_missing_environment_variables_only_where_the_model_needs_them(folder):
    text = HEAD + 'api_key_env = "LIB_KEY"\nfallbacks = [{ model = "openai:x", api_key_env = "OTHER_KEY" }]\n[graph]\ntype = "react"'
    options = read_manifest(write(folder, text)).options
    assert environment_findings(options, {}) == [
        "fallbacks[0].api_key_env: the environment variable OTHER_KEY is not set; set it to the key for openai:x"
    ]
    remote = read_manifest(write(folder, text.replace("scripted:s.json", "openai:y"))).options
    assert len(environment_findings(remote, {"OTHER_KEY": "k"})) == 1
    assert environment_findings(remote, {"OTHER_KEY": "k", "LIB_KEY": "k"}) == []


def test_reading_a_manifest_without_tools_imports_no_heavy_library(folder):
    path = write(folder, HEAD + '[graph]\ntype = "react"')
    code = "import sys; from causeline.agent.manifest.manifest import read_manifest\n"
    code += f"read_manifest({str(path)!r}); assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


words = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)


@given(st.lists(st.tuples(st.sampled_from(["table", "array", "entry", "text", "comment"]), words), max_size=20))
def test_lines_of_any_toml_are_those_of_its_keys(parts):
    import tomllib

    lines, expected, table, counts = [], {}, (), {}
    for kind, word in parts:
        name = f"{word}-{len(lines)}" if kind != "array" else word  # an array may come again, any other key must not
        if kind == "table":
            table = (name,)
            lines.append(f"[{name}]")
            expected[table] = len(lines)
        elif kind == "array":
            counts[word] = counts.get(word, -1) + 1
            table = (word, counts[word])
            lines.append(f"[[ {word} ]] # [x]")
            expected[table] = len(lines)
        elif kind == "entry":
            lines.append(f'  {name}.inner = "[a] = 1"')
            expected[(*table, name, "inner")] = len(lines)
        elif kind == "text":
            lines.append(f'{name} = """[t]')
            expected[(*table, name)] = len(lines)
            lines += ["[fake]", "fake = 1", '"""']
        else:
            lines.append(["# [fake]", "# a = 1"][0])
    text = "\n".join(lines)
    tomllib.loads(text)
    assert toml_lines(text) == expected
