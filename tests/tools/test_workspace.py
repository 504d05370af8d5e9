"""Nothing outside the root is read or written, and every call on a file leaves a resource."""

import hashlib
import os
from pathlib import Path

import pytest

from causeline.errors import Misuse
from causeline.tools.execute import execute
from causeline.tools.tool import ToolContext
from causeline.tools.workspace import workspace_tools

CONTEXT = ToolContext(call_id="c", idempotency_key="k")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def root(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "secret.txt").write_text("secret")
    return inside


@pytest.fixture
def call(root):
    tools = {tool.name: tool for tool in workspace_tools(root)}

    async def run(name, **arguments):
        return await execute(tools[name], arguments, CONTEXT)

    return run


def payloads(executed):
    return [resource.to_payload() for resource in executed.resources]


async def test_reading_gives_lines_and_the_hash_of_the_whole(call):
    executed = await call("read_file", path="a.txt", offset=1, limit=1)
    text = "one\ntwo\nthree\n"
    assert executed.result == {
        "path": "a.txt",
        "content": "two\n",
        "first_line": 2,
        "total_lines": 3,
        "content_hash": digest(text),
        "bytes": 14,
    }
    assert payloads(executed) == [{"path": "a.txt", "operation": "read_file", "succeeded": True, "contentHash": digest(text), "bytes": 14}]


@pytest.mark.parametrize("text, total", [("", 0), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("a\r\nb\x0c\u2028c", 2)])
async def test_reading_all_gives_the_text_exactly(call, root, text, total):
    (root / "t").write_bytes(text.encode())
    executed = await call("read_file", path="t")
    assert (executed.result["content"], executed.result["total_lines"]) == (text, total)


async def test_writing_makes_directories_and_reports_a_version(call, root):
    executed = await call("write_file", path="deep/er/b.txt", content="héllo")
    assert executed.result == {"path": "deep/er/b.txt", "created": True, "content_hash": digest("héllo"), "bytes": 6}
    assert (root / "deep/er/b.txt").read_text() == "héllo"
    assert [resource.key for resource in executed.resources] == ["resource:file:deep/er/b.txt"]
    assert [each.name for each in (root / "deep/er").iterdir()] == ["b.txt"]


async def test_expected_hash_guards_a_write_and_writing_the_same_again_is_fine(call, root):
    assert not (await call("write_file", path="a.txt", content="new", expected_hash=digest("other"))).ok
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    old = digest("one\ntwo\nthree\n")
    assert (await call("write_file", path="a.txt", content="new", expected_hash=old)).ok
    assert (await call("write_file", path="a.txt", content="new", expected_hash=old)).ok
    refused = await call("write_file", path="missing/none.txt", content="x", expected_hash=old)
    assert not refused.ok
    assert not (root / "missing").exists()


async def test_a_write_keeps_the_files_mode(call, root):
    (root / "a.txt").chmod(0o755)
    await call("write_file", path="a.txt", content="new")
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o755


async def test_editing_needs_one_exact_match(call, root):
    executed = await call("edit_file", path="a.txt", old="two", new="2")
    assert executed.result["replaced"] == 1
    assert (root / "a.txt").read_text() == "one\n2\nthree\n"
    assert "does not occur" in (await call("edit_file", path="a.txt", old="two", new="2")).text
    assert "occurs 3 times" in (await call("edit_file", path="a.txt", old="e", new="E")).text
    assert (await call("edit_file", path="a.txt", old="e", new="E", replace_all=True)).result["replaced"] == 3
    assert not (await call("edit_file", path="a.txt", old="n", new="n")).ok
    assert not (await call("edit_file", path="a.txt", old="", new="n")).ok
    assert "the file changed" in (await call("edit_file", path="a.txt", old="2", new="3", expected_hash="0")).text


async def test_a_failed_call_on_a_file_leaves_a_resource_that_says_so(call):
    executed = await call("edit_file", path="a.txt", old="zzz", new="y")
    assert payloads(executed) == [{"path": "a.txt", "operation": "edit_file", "succeeded": False}]
    assert executed.text == "a.txt: the text old does not occur; read the file and copy it exactly"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/hosts", "a/../../secret.txt", "..", "link.txt", "linked/secret.txt", "a\\..\\b", "a.txt\x00b", ".", ""]
)
@pytest.mark.parametrize("name, extra", [("read_file", {}), ("write_file", {"content": "x"}), ("edit_file", {"old": "s", "new": "x"})])
async def test_no_path_leads_out(call, root, path, name, extra):
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "linked").symlink_to(root.parent)
    executed = await call(name, path=path, **extra)
    assert not executed.ok
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert "secret" not in executed.text.replace("secret.txt", "")


async def test_special_files_and_binary_and_big_ones_are_refused(call, root):
    os.mkfifo(root / "pipe")
    (root / "binary").write_bytes(b"\xff\xfe")
    with (root / "big").open("wb") as file:
        file.truncate(10_000_001)
    (root / "folder").mkdir()
    for path in ("pipe", "binary", "big", "folder", "missing", "a.txt/b"):
        executed = await call("read_file", path=path)
        assert not executed.ok, path
        assert executed.resources[0].succeeded is False
    assert not (await call("write_file", path="pipe", content="x")).ok
    assert not (await call("write_file", path="folder", content="x")).ok
    assert not (await call("write_file", path="a.txt/b", content="x")).ok
    assert not (await call("write_file", path="b", content="x" * 1_000_001)).ok


async def test_bounds_of_reading(call):
    for arguments in ({"offset": -1}, {"limit": 0}, {"limit": 2001}):
        assert not (await call("read_file", path="a.txt", **arguments)).ok


async def test_listing_is_sorted_bounded_and_follows_no_links(call, root):
    (root / "sub").mkdir()
    (root / "sub" / "b.py").write_text("x")
    (root / "linked").symlink_to(root.parent)
    assert (await call("list_files")).result == {
        "path": ".",
        "files": [{"path": "a.txt", "bytes": 14}, {"path": "sub/b.py", "bytes": 1}],
        "complete": True,
    }
    assert (await call("list_files", pattern="*.py")).result["files"] == [{"path": "sub/b.py", "bytes": 1}]
    assert (await call("list_files", path="sub")).result["files"] == [{"path": "sub/b.py", "bytes": 1}]
    for number in range(1001):
        (root / "sub" / f"{number:04}.txt").touch()
    many = (await call("list_files", pattern="*.txt")).result
    assert (len(many["files"]), many["complete"]) == (1000, False)
    assert not (await call("list_files", path="linked")).ok
    assert not (await call("list_files", path="..")).ok


def test_the_root_must_be_a_directory(tmp_path):
    with pytest.raises(Misuse):
        workspace_tools(tmp_path / "none")


def test_policies():
    policies = {tool.name: (tool.effects, tool.idempotent, tool.exclusive) for tool in workspace_tools(Path())}
    assert policies == {
        "read_file": (False, False, False),
        "write_file": (True, True, True),
        "edit_file": (True, False, True),
        "list_files": (False, False, False),
    }
