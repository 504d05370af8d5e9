"""Modules beside a manifest are loaded fresh, apart from each other, and leave no trace."""

import sys
import threading

import pytest

from causeline.agent.manifest.manifest import InvalidManifest, manifest_from_plain, read_manifest
from causeline.agent.manifest.modules import modules_beside

HEAD = '[agent]\nmodel = "scripted:s.json"\n[graph]\ntype = "react"\n'
GOOD = HEAD + '[[tools]]\npython = "tools:lookup"\n'
TOOLS = """
import shared_words

def lookup(query: str) -> str:
    return shared_words.VALUE + query
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "shared_words.py").write_text('VALUE = "v"\n')
    return tmp_path


def write(folder, text):
    path = folder / "agent.toml"
    path.write_text(text)
    return path


def findings(path):
    with pytest.raises(InvalidManifest) as caught:
        read_manifest(path)
    return [str(finding) for finding in caught.value.findings]


def test_packages_with_relative_imports(folder):
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "inner.py").write_text("from . import other\ndef word(): return other.WORD\n")
    (folder / "pack" / "other.py").write_text("WORD = 'w'\n")
    plain = read_manifest(write(folder, HEAD + '[[tools]]\npython = "pack.inner:word"')).to_plain()
    assert manifest_from_plain(plain).tools[0]() == "w"


def test_two_agents_with_modules_of_the_same_names_do_not_mix(tmp_path):
    tools = []
    for word in ("first", "second"):
        folder = tmp_path / word
        folder.mkdir()
        (folder / "tools.py").write_text(TOOLS)
        (folder / "shared_words.py").write_text(f"VALUE = '{word}'\n")
        tools += read_manifest(write(folder, GOOD)).tools
    assert [tool("!") for tool in tools] == ["first!", "second!"]


def test_loading_leaves_the_interpreter_as_it_was(folder):
    before = (
        list(sys.path),
        {name: module for name, module in sys.modules.items() if not name.startswith("causeline_")},
        sys.dont_write_bytecode,
    )
    read_manifest(write(folder, GOOD))
    after = (
        list(sys.path),
        {name: module for name, module in sys.modules.items() if not name.startswith("causeline_")},
        sys.dont_write_bytecode,
    )
    assert before == after
    assert not (folder / "__pycache__").exists()


def test_a_module_is_read_as_it_is_now(folder):
    path = write(folder, GOOD)
    for word in "abc":
        (folder / "shared_words.py").write_text(f"VALUE = '{word}'\n")
        assert read_manifest(path).tools[0]("") == word


@pytest.mark.parametrize(
    "code, told",
    [
        ("import nothing_like_this", "tools.py:1: ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("raise SystemExit(3)", "tools.py:1: SystemExit: 3"),
        ("def f(:", "tools.py:1: SyntaxError: "),
        ("import shared_words\nshared_words.nope", "tools.py:2: AttributeError: "),
        ("lookup = 3", "3 is neither a tool nor a function"),
        ("def lookup(*a): ...", "Tool 'lookup': *args has no names"),
    ],
)
def test_modules_that_fail_are_findings(folder, code, told):
    (folder / "tools.py").write_text(code + "\n")
    found = findings(write(folder, GOOD))
    assert len(found) == 1
    assert found[0].startswith(f"{folder / 'agent.toml'}:6: tools[0].python: {told}")


def test_loading_from_several_threads(folder):
    path, results = write(folder, GOOD), []
    threads = [threading.Thread(target=lambda: results.append(read_manifest(path).tools[0]("x"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["vx"] * 8


def test_modules_import_each_other_once(folder):
    (folder / "counter.py").write_text("import tools\nCOUNT = []\n")
    (folder / "tools.py").write_text("VALUE = []\n")
    with modules_beside(folder) as modules:
        assert modules.load("counter").tools is modules.load("tools")
        assert modules.load("tools") is modules.load("tools.py")
