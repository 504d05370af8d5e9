"""Tools for the files of one directory.

Law: nothing outside the root is read or written, whatever a path says and whatever happens to the directory in the
meantime: each component is opened from the one before it, and symbolic links are refused. A write is whole or not at
all. Every call on a file leaves a resource, also one that failed.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from causeline.errors import Misuse, check_argument
from causeline.shapes import PATH
from causeline.tools.function import tool
from causeline.tools.tool import Resource, Tool, ToolError, ToolResult

MAX_FILE = 10_000_000
MAX_WRITE = 1_000_000
MAX_LINES = 2_000
MAX_LISTED = 1_000
MAX_VISITED = 50_000

Work = Callable[[list[str]], tuple[dict[str, Any], bytes]]
"""Does something to the file with these path components; gives what to tell and the file's bytes afterwards."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def workspace_tools(root: str | Path) -> tuple[Tool, ...]:
    """`read_file`, `write_file`, `edit_file` and `list_files` for the directory `root`. Raises Misuse if it is none."""
    check_argument("root", PATH(root))
    files = Workspace(root)
    return (
        tool(files.read_file, effects=False),
        tool(files.write_file, idempotent=True, exclusive=True),
        tool(files.edit_file, exclusive=True),
        tool(files.list_files, effects=False),
    )


class Workspace:
    """One directory, by path; its files by paths relative to it, with / between the parts."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise Misuse(f"{self.root} is not a directory; make it before giving it to an agent.")
        if os.open not in os.supports_dir_fd:
            raise Misuse("The workspace tools need a system that opens files relative to a directory (Linux, macOS).")

    def read_file(self, path: Annotated[str, "Relative to the workspace."], offset: int = 0, limit: int = 500) -> ToolResult:
        """Read a text file. `offset` lines are skipped, at most `limit` (up to 2000) are returned. The result has the
        `content_hash` of the whole file, for `expected_hash` when you write."""
        if offset < 0 or not 1 <= limit <= MAX_LINES:
            raise ToolError(f"offset must be 0 or more, limit 1 to {MAX_LINES}")
        return self._on(path, "read_file", lambda parts: self._read(parts, offset, limit))

    def write_file(self, path: str, content: str, expected_hash: str | None = None) -> ToolResult:
        """Write a whole text file; missing directories are made. With `expected_hash` the file is only
        replaced if its content_hash is still that one."""
        data = _encoded(content)
        return self._on(path, "write_file", lambda parts: self._write(parts, data, expected_hash))

    def edit_file(self, path: str, old: str, new: str, replace_all: bool = False, expected_hash: str | None = None) -> ToolResult:
        """Replace the text `old`, which must occur exactly once unless `replace_all`, by `new`."""
        if not old or old == new:
            raise ToolError("old must not be empty, and new must differ from it")
        return self._on(path, "edit_file", lambda parts: self._edit(parts, old, new, expected_hash, everywhere=replace_all))

    def list_files(self, path: str = ".", pattern: Annotated[str, "Fits the path below `path`, * and ? allowed."] = "*") -> dict[str, Any]:
        """List the files below a directory with their sizes, at most 1000."""
        parts = _parts(path)
        with self._directory(parts) as directory:
            files, complete = _listing(directory, pattern)
        shown = "/".join(parts)
        files = [{"path": f"{shown}/{name}" if shown else name, "bytes": size} for name, size in files]
        return {"path": shown or ".", "files": files, "complete": complete}

    def _on(self, path: str, operation: str, work: Work) -> ToolResult:
        """Do something to one file; what comes of it becomes the file's next version."""
        parts = _parts(path)
        if not parts:
            raise ToolError(f"{path!r} is the workspace itself; give the path of a file")
        name = "/".join(parts)
        try:
            value, data = work(parts)
        except (ToolError, OSError) as error:
            return ToolResult(f"{name}: {error}", ok=False, resources=(Resource(name, operation, succeeded=False),))
        digest = hashlib.sha256(data).hexdigest()
        resource = Resource(name, operation, content_hash=digest, bytes=len(data))
        return ToolResult({"path": name, **value, "content_hash": digest, "bytes": len(data)}, resources=(resource,))

    def _read(self, parts: list[str], offset: int, limit: int) -> tuple[dict[str, Any], bytes]:
        with self._directory(parts[:-1]) as directory:
            data = _contents(directory, parts[-1])
        lines = [f"{line}\n" for line in _decoded(data).split("\n")]
        lines[-1] = lines[-1][:-1]
        total = len(lines) if lines[-1] else len(lines) - 1
        return {"content": "".join(lines[offset : offset + limit]), "first_line": offset + 1, "total_lines": total}, data

    def _write(self, parts: list[str], data: bytes, expected: str | None) -> tuple[dict[str, Any], bytes]:
        with self._directory(parts[:-1], make=expected is None) as directory:
            before = _existing(directory, parts[-1])
            if before != data:
                _check(before, expected)
                _replace(directory, parts[-1], data)
        return {"created": before is None}, data

    def _edit(self, parts: list[str], old: str, new: str, expected: str | None, *, everywhere: bool) -> tuple[dict[str, Any], bytes]:
        with self._directory(parts[:-1]) as directory:
            before = _contents(directory, parts[-1])
            _check(before, expected)
            text = _decoded(before)
            count = text.count(old)
            if count == 0:
                raise ToolError("the text old does not occur; read the file and copy it exactly")
            if count > 1 and not everywhere:
                raise ToolError(f"the text old occurs {count} times; give more of what is around it, or set replace_all")
            data = _encoded(text.replace(old, new))
            _replace(directory, parts[-1], data)
        return {"replaced": count}, data

    @contextmanager
    def _directory(self, parts: list[str], *, make: bool = False) -> Generator[int]:
        """A descriptor of a directory, reached one component at a time from the root."""
        current = os.open(self.root, _DIRECTORY)
        try:
            for part in parts:
                if make and not _there(current, part):
                    _make(current, part)
                inner = _opened(part, _DIRECTORY, current)
                os.close(current)
                current = inner
            yield current
        finally:
            os.close(current)


def _parts(path: str) -> list[str]:
    """The components of a relative path. Raises ToolError for any other."""
    if "\0" in path or "\\" in path or path.startswith("/"):
        raise ToolError(f"{path!r}: expected a path relative to the workspace, with / between its parts")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ToolError(f"{path!r}: .. leads out of the workspace")
    return parts


def _there(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from error


def _make(directory: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=directory)
    except FileExistsError:
        pass  # somebody else was faster
    except OSError as error:
        raise ToolError(f"{name}: {error.strerror}") from error


def _opened(name: str, flags: int, directory: int) -> int:
    try:
        return os.open(name, flags, 0o644, dir_fd=directory)
    except FileNotFoundError:
        raise ToolError(f"{name}: no such file or directory") from None
    except OSError as error:
        found = _there(directory, name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise ToolError(f"{name}: symbolic links are not followed") from None
        raise ToolError(f"{name}: {error.strerror}") from error


def _contents(directory: int, name: str) -> bytes:
    descriptor = _opened(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, directory)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ToolError("not a file")
        if found.st_size > MAX_FILE:
            raise ToolError(f"larger than {MAX_FILE} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE)
    finally:
        os.close(descriptor)


def _existing(directory: int, name: str) -> bytes | None:
    return None if _there(directory, name) is None else _contents(directory, name)


def _replace(directory: int, name: str, data: bytes) -> None:
    """Put `data` in the place of a file: written beside it first, so that nobody sees half of it."""
    found = _there(directory, name)
    beside = f".{secrets.token_hex(8)}.part"
    descriptor = _opened(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if found is not None:
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError as error:
        os.unlink(beside, dir_fd=directory)
        raise ToolError(f"cannot be written: {error.strerror}") from error


def _check(before: bytes | None, expected: str | None) -> None:
    if expected is None:
        return
    actual = None if before is None else hashlib.sha256(before).hexdigest()
    if actual != expected:
        raise ToolError(f"the file changed: its content_hash is {actual or 'none, it does not exist'}; read it again before you write")


def _encoded(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is not text: {error.reason}") from error
    if len(data) > MAX_WRITE:
        raise ToolError(f"the content has {len(data)} bytes; at most {MAX_WRITE} are written at once")
    return data


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError("not UTF-8 text") from error


def _listing(directory: int, pattern: str) -> tuple[list[tuple[str, int]], bool]:
    """(path, size) of regular files below a directory, sorted, and whether these are all."""
    found: list[tuple[str, int]] = []
    visited = 0
    for top, folders, names, inner in os.fwalk(".", dir_fd=directory, follow_symlinks=False):
        folders.sort()
        for name in sorted(names):
            visited += 1
            path = os.path.normpath(f"{top}/{name}")
            details = _there(inner, name)
            if details is not None and stat.S_ISREG(details.st_mode) and fnmatchcase(path, pattern):
                if len(found) == MAX_LISTED:
                    return sorted(found), False
                found.append((path, details.st_size))
        if visited > MAX_VISITED:
            return sorted(found), False
    return sorted(found), True
