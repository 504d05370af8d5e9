"""The tools of an MCP server, as a toolset.

Law: the server is a stranger. Its names, texts and schemas are checked and bounded, a tool that cannot be used is left out and
logged, and a server that went away fails the calls that need it, with a reason, until it is back.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from causeline.adapters.tools.mcp_connection import Connection, ServerGone, StandardError, http_transport, process_transport
from causeline.adapters.tools.mcp_results import tool_result
from causeline.errors import CauselineError, Invalid, Missing
from causeline.models.messages import Json
from causeline.tools.json_schema import shortened
from causeline.tools.tool import Tool, ToolContext, ToolError, ToolResult, schema_tool

LOG = logging.getLogger("causeline.tools")
MAX_TOOLS = 1_000
MAX_DESCRIPTION = 4_000
MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class InvalidServer(Invalid):
    """What was said of an MCP server is wrong. `findings` has one line `field: fault` for each."""

    code = "invalid_mcp_server"


def mcp(
    command: Sequence[str] | None = None,
    *,
    url: str | None = None,
    name: str,
    env: Mapping[str, str] | None = None,
    headers_env: Mapping[str, str] | None = None,
    allow: Sequence[str] = ("*",),
    timeout: float = 30,
    cwd: str | Path | None = None,
) -> "McpTools":
    """The tools of an MCP server: of a process that `command` starts, or of one at `url` (streamable HTTP).

    They are named `<name>__<tool>`; `allow` holds names or globs of those that are wanted. `env` is added to the few variables that the
    process inherits; a value `${NAME}` is taken from this process's environment. `headers_env` names, for each HTTP header, the
    environment variable that holds it. `timeout` is in seconds, for connecting and for each call.
    Raises InvalidServer, and Missing without the package `mcp`.
    """
    findings = _findings(command, url, name, allow, timeout)
    findings += _pair_findings("env", env, useful=url is None) + _pair_findings("headers_env", headers_env, useful=url is not None)
    if findings:
        raise InvalidServer(f"MCP server {name!r}: {'; '.join(findings)}.", findings=findings)
    _check_installed()
    errors = StandardError()
    if command is not None:
        transport = process_transport(tuple(command), dict(env or {}), None if cwd is None else Path(cwd), errors)
    else:
        transport = http_transport(url or "", dict(headers_env or {}), float(timeout))
    return McpTools(name, lambda changed: Connection(name, transport, changed, errors.words), tuple(allow), float(timeout))


class McpTools:
    """A Toolset; made by `mcp`."""

    def __init__(self, name: str, connect: Callable[[Callable[[], None]], Connection], allow: Sequence[str], timeout: float) -> None:
        self.name = name
        self._connect = connect
        self._allow = allow
        self._timeout = timeout
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._known: Mapping[str, tuple[Json, Tool]] = {}
        self._stale = False

    def __repr__(self) -> str:
        return f"<tools of the MCP server {self.name}>"

    async def open(self) -> None:
        """Raises ServerGone where the server cannot be reached or does not say what it offers."""
        connection = await self._connected()
        try:
            await self._look(connection)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()

    async def tools(self) -> Sequence[Tool]:
        """What the server offers, asked for again when it said that this has changed."""
        connection = self._connection
        if self._stale and connection is not None and not connection.over:
            await self._look(connection)
        return [tool for _, tool in self._known.values()]

    async def _connected(self) -> Connection:
        """The connection, made anew where the server went away."""
        async with self._turn:
            if self._connection is not None and not self._connection.over:
                return self._connection
            before, self._connection = self._connection, None
            if before is not None:
                await before.close()
                self._stale = True  # another process may offer other tools
            connection = self._connect(self._note_change)
            await connection.open(self._timeout)
            self._connection = connection
            return connection

    def _note_change(self) -> None:
        self._stale = True

    async def _look(self, connection: Connection) -> None:
        self._stale = False
        try:
            async with asyncio.timeout(self._timeout):
                offered = await _listed(connection)
        except Exception as error:
            self._stale = True
            if isinstance(error, CauselineError):
                raise
            raise ServerGone(f"the MCP server {self.name} does not say what it offers: {error or type(error).__name__}") from error
        self._known = self._taken(offered)

    def _taken(self, offered: Sequence[Any]) -> Mapping[str, tuple[Json, Tool]]:
        """The tools that are wanted and can be used; one that did not change stays the same object."""
        known: dict[str, tuple[Json, Tool]] = {}
        for each in offered:
            if not any(fnmatchcase(each.name, pattern) for pattern in self._allow):
                continue
            name = tool_name(self.name, each.name, taken=known)
            told: Json = each.model_dump(mode="json", by_alias=True, exclude_none=True)
            before = self._known.get(name)
            if before is not None and before[0] == told:
                known[name] = before
                continue
            try:
                tool = self._tool(name, each)
                tool.compile()
            except CauselineError as error:
                LOG.warning("the tool %s of the MCP server %s cannot be used: %s", shortened(each.name), self.name, error.message)
            else:
                known[name] = (told, tool)
        return known

    def _tool(self, name: str, offered: Any) -> Tool:
        hints = offered.annotations
        reads = bool(hints and hints.read_only_hint)
        repeatable = reads or bool(hints and hints.idempotent_hint)

        async def run(arguments: Json, context: ToolContext) -> ToolResult:
            return await self._call(offered.name, arguments, context, repeatable=repeatable)

        return schema_tool(
            name,
            shortened(offered.description or offered.title or "", MAX_DESCRIPTION),
            offered.input_schema,
            run,
            effects=not reads,
            idempotent=repeatable,
            timeout=self._timeout,
        )

    async def _call(self, tool: str, arguments: Json, context: ToolContext, *, repeatable: bool) -> ToolResult:
        """Ask the server. A call that can be repeated is, once, where the server went away in the middle of it."""
        for last in (False, True):
            connection = await self._connected()
            try:
                return await _asked(connection, tool, arguments, context)
            except ServerGone:
                if last or not repeatable:
                    raise
        raise AssertionError("the loop returns or raises")


async def _asked(connection: Connection, tool: str, arguments: Json, context: ToolContext) -> ToolResult:
    from mcp import MCPError

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told = {"progress": progress, "total": total, "message": message}
        context.emit_progress({name: value for name, value in told.items() if value is not None})

    try:
        return tool_result(await connection.client.call_tool(tool, arguments, progress_callback=tell))
    except MCPError as error:
        if not connection.over and not _is_closed(error):
            raise ToolError(f"{connection.name}: {error.message}") from error
        await connection.close()
        raise ServerGone(
            f"the MCP server {connection.name} went away while this ran, so nobody knows whether it had effects; "
            "the server is started or connected again with the next call",
            asked=True,
        ) from error


def _is_closed(error: Any) -> bool:
    from mcp import types

    return error.code == types.CONNECTION_CLOSED


async def _listed(connection: Connection) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await connection.client.list_tools(cursor=cursor, cache_mode="refresh")
        found.extend(page.tools)
        if page.next_cursor is None or page.next_cursor == cursor:
            return found
        if len(found) > MAX_TOOLS:
            raise ServerGone(f"the MCP server {connection.name} offers more than {MAX_TOOLS} tools")
        cursor = page.next_cursor


def tool_name(server: str, tool: str, *, taken: Mapping[str, Any]) -> str:
    """`<server>__<tool>`, in signs and of a length that every provider takes; one that would be too long, or is taken, ends in a hash."""
    whole = f"{server}__{_ODD.sub('_', tool)}"
    if len(whole) <= MAX_NAME and whole not in taken:
        return whole
    return f"{whole[: MAX_NAME - 9]}_{hashlib.sha256(tool.encode(errors='replace')).hexdigest()[:8]}"


def _findings(command: Any, url: Any, name: Any, allow: Any, timeout: Any) -> list[str]:
    lines: list[str] = []
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        lines.append("name: expected 1 to 32 letters, digits, _ or -")
    if (command is None) == (url is None):
        lines.append("command: give either command, a list of texts, or url")
    elif command is not None and not _are_texts(command):
        lines.append(f"command: expected a list of texts, program first, got {command!r}")
    elif url is not None and (not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        lines.append(f"url: expected an http: or https: address, got {url!r}")
    if not _are_texts(allow):
        lines.append(f"allow: expected a list of names or globs, got {allow!r}")
    if type(timeout) not in (int, float) or not 0 < timeout < float("inf"):
        lines.append(f"timeout: expected seconds above 0, got {timeout!r}")
    return lines


def _pair_findings(field: str, pairs: Any, *, useful: bool) -> list[str]:
    if not pairs:
        return []
    if not useful:
        return [f"{field}: has no effect with {'url' if field == 'env' else 'command'}"]
    right = isinstance(pairs, Mapping) and all(isinstance(text, str) for pair in cast(Json, pairs).items() for text in pair)
    return [] if right else [f"{field}: expected a map of texts"]


def _are_texts(value: Any) -> bool:
    given = cast(Sequence[Any], value) if isinstance(value, list | tuple) else ()
    return bool(given) and all(isinstance(text, str) and text and "\0" not in text for text in given)


def _check_installed() -> None:
    if find_spec("mcp") is None:
        raise Missing("tools of MCP servers need the package mcp; install causeline[mcp]")
