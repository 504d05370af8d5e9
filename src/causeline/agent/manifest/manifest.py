"""An agent written down as a file.

Law: a manifest is understood whole or refused with every finding at once, each with its place and, where the format
has lines, its line. What is kept of it (`to_plain`) is a manifest again, and needs the tools' files but not this one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from causeline.agent.manifest.modules import BrokenModule, Modules, attribute, modules_beside
from causeline.agent.manifest.source import Place, Reader, Source, UnreadableText, read_source
from causeline.agent.option_rules import meant
from causeline.agent.options import OPTION_NAMES, Options, option_findings, readable, skill_findings
from causeline.agent.react.remember import REMEMBER
from causeline.agent.stored_options import memory_table
from causeline.errors import CauselineError, Invalid, Missing
from causeline.models.messages import Json
from causeline.tools.approval import approval_findings
from causeline.tools.function import as_tool
from causeline.tools.result_json import NotPlain, plain
from causeline.tools.tool import POLICY, InvalidTool, Tool
from causeline.tools.toolbox import Toolbox, hint
from causeline.tools.toolset import Toolset

GRAPHS = ("react", "react-flat")
_FILE = "sqlite:///"
_TABLES = ("agent", "graph", "tools", "mcp", "memory", "context", "server")
_ELSEWHERE = {
    "graph": "write [graph] type = ...",
    "tools": "write [[tools]] python = ...",
    "memory": "write [memory] store = ...",
    "base_dir": "it is the file's directory",
}
_OPTIONS = tuple(name for name in readable("file") if name != "memory")
_ONLY_PYTHON = tuple(name for name in OPTION_NAMES if name not in (*_OPTIONS, *_ELSEWHERE))
_TOOL_KEYS = ("python", "name", "description", *POLICY)
_SERVER_KEYS = ("name", "command", "url", "env", "headers_env", "allow", "timeout")
Connect = Callable[..., Toolset]
"""Makes the toolset of an MCP server from the keys of an `[[mcp]]` table and the directory `cwd`."""


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """One fault. `place` is like `tools[0].approval`, `line` counts from 1."""

    message: str
    place: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.place}: {self.message}" if self.place else f"{where}: {self.message}"


class InvalidManifest(Invalid):
    """A manifest has faults; `findings` are ManifestFinding records."""

    code = "invalid_manifest"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An agent as its file says it. `context` is the run's first context object, `tokens` maps access tokens to owners."""

    options: Options
    tools: tuple[Tool | Toolset, ...]
    context: Json = field(default_factory=dict[str, Any])
    tokens: Mapping[str, str] = field(default_factory=dict[str, str])
    references: tuple[Json, ...] = ()
    """The `[[tools]]` entries, their files by absolute path."""
    servers: tuple[Json, ...] = ()
    """The `[[mcp]]` entries."""

    def to_plain(self) -> Json:
        """The same manifest as JSON, with skills and tool files resolved. Access tokens are left out."""
        options = self.options.to_plain()
        return {
            "base_dir": options["base_dir"],
            "agent": {name: options[name] for name in _OPTIONS},
            "graph": {"type": options["graph"]},
            "tools": [dict(each) for each in self.references],
            "mcp": [dict(each) for each in self.servers],
            **({} if options["memory"] is None else {"memory": memory_table(options["memory"])}),
            "context": self.context,
        }


def read_manifest(
    path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    readers: Mapping[str, Reader] | None = None,
    connect: Connect | None = None,
) -> Manifest:
    """The manifest in a file. `overrides` stand in for options of `[agent]`; `readers` know further endings, such as `.hcl`; `connect`
    makes toolsets of MCP servers.

    Raises Missing if the file is not there, InvalidManifest with every finding.
    """
    path = Path(path)
    try:
        source = read_source(path, readers or {})
    except UnreadableText as error:
        finding = ManifestFinding(error.message.removeprefix(f"{path}: "), "", str(path), error.line)
        raise InvalidManifest(str(finding), findings=(finding,)) from error
    return _Reading(source, connect).manifest(overrides or {})


def manifest_from_plain(data: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, *, connect: Connect | None = None) -> Manifest:
    """The manifest `to_plain` gave, with the tool files as they are now. Raises InvalidManifest with every finding."""
    base = data.get("base_dir")
    rest = {key: value for key, value in data.items() if key != "base_dir"}
    return _Reading(Source("stored agent", Path(base) if isinstance(base, str) else Path(), rest, {}), connect).manifest(overrides or {})


def environment_findings(options: Options, environ: Mapping[str, str]) -> list[str]:
    """Environment variables that the options name and that are not set, one line each. Models that run here need none."""
    wanted = [("api_key_env", options.model, options.api_key_env)]
    wanted += [
        (f"fallbacks[{index}].api_key_env", each["model"], each.get("api_key_env"))
        for index, each in enumerate(options.fallbacks)
        if isinstance(each, Mapping)
    ]
    return [
        f"{place}: the environment variable {name} is not set; set it to the key for {model}"
        for place, model, name in wanted
        if name and not environ.get(name) and not (isinstance(model, str) and model.startswith(("scripted:", "local:")))
    ]


class _Reading:
    """One manifest under examination; collects findings."""

    def __init__(self, source: Source, connect: Connect | None) -> None:
        self.source = source
        self.connect = connect
        self.findings: list[ManifestFinding] = []

    def manifest(self, overrides: Mapping[str, Any]) -> Manifest:
        self._top()
        values = {**self._agent(), **overrides, "base_dir": self.source.directory}
        graph = self._graph()
        if graph is not None and "graph" not in overrides:
            values["graph"] = graph
        if "memory" in self.source.data and "memory" not in overrides:
            values["memory"] = self._memory()
        for name, line in option_findings(values):
            self._say_of_option(name, line)
        tools, references = self._tools()
        servers, entries = self._servers()
        tools.extend(servers)
        context, tokens = self._context(), self._tokens()
        if not self.findings:
            options = Options.checked(**values)
            self._together(options, tools)
            if not self.findings:
                return Manifest(options, tuple(tools), context, tokens, tuple(references), tuple(entries))
        findings = sorted(self.findings, key=lambda finding: finding.line or 0)
        lines = "\n".join(str(finding) for finding in findings)
        raise InvalidManifest(f"The agent cannot be built:\n{lines}", findings=findings)

    def _say(self, message: str, *place: str | int) -> None:
        written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
        self.findings.append(ManifestFinding(message, written, self.source.name, self.source.line(place)))

    def _say_of_option(self, name: str, line: str) -> None:
        """A fault of an option, at the key that stands for it."""
        key, _, fault = line.partition(": ")
        if name != "memory":
            self._say(line, "agent", name)
        elif key in self._table("memory"):
            self._say(fault, "memory", key)
        else:
            self._say(line, "memory")

    def _unknown(self, key: str, known: tuple[str, ...], *place: str | int) -> None:
        close = meant(key, known)
        self._say("unknown key; " + (f"did you mean {close}?" if close else f"known are {', '.join(known)}"), *place, key)

    def _table(self, *place: str | int) -> Json:
        """The table at a place, {} where there is none."""
        found: Any = self.source.data
        for part in place:
            found = found.get(part, {}) if isinstance(part, str) else found[part]
        if isinstance(found, dict):
            return cast(Json, found)
        self._say("expected a table", *place)
        return {}

    def _top(self) -> None:
        for key in self.source.data:
            if key not in _TABLES:
                self._unknown(key, _TABLES)

    def _agent(self) -> Json:
        values: Json = {}
        for name, value in self._table("agent").items():
            if name in _ONLY_PYTHON:
                self._say("can only be given in Python", "agent", name)
            elif name in _ELSEWHERE:
                self._say(f"does not belong here; {_ELSEWHERE[name]}", "agent", name)
            elif name not in _OPTIONS:
                self._unknown(name, _OPTIONS, "agent")
            else:
                values[name] = value
        return values

    def _graph(self) -> Any:
        table = self._table("graph")
        for key in table:
            if key != "type":
                self._unknown(key, ("type",), "graph")
        kind = table.get("type")
        if kind is None:
            self._say('required; write type = "react"', "graph", "type")
        elif isinstance(kind, Mapping):
            return cast(Json, kind)  # a document kept whole
        elif not isinstance(kind, str) or not kind:
            self._say(f"expected {', '.join(GRAPHS)} or the path of a document", "graph", "type")
        elif kind not in GRAPHS and not (self.source.directory / kind).is_file():
            close = get_close_matches(kind, GRAPHS, n=1)
            advice = f"did you mean {close[0]}?" if close else f"give {', '.join(GRAPHS)} or the path of a document"
            self._say(f"no file {kind} in {self.source.directory}; {advice}", "graph", "type")
        else:
            return kind if kind in GRAPHS else str((self.source.directory / kind).resolve())
        return None

    def _entries(self, key: str) -> range:
        """The places in a list of tables."""
        entries: Any = self.source.data.get(key, [])
        if not isinstance(entries, list):
            self._say(f"expected a list of tables; write [[{key}]]", key)
            return range(0)
        return range(len(cast(list[Any], entries)))

    def _servers(self) -> tuple[list[Toolset], list[Json]]:
        servers: list[Toolset] = []
        entries: list[Json] = []
        for index in self._entries("mcp"):
            entry = self._table("mcp", index)
            for key in entry:
                if key not in _SERVER_KEYS:
                    self._unknown(key, _SERVER_KEYS, "mcp", index)
            if any(before["name"] == entry.get("name") for before in entries):
                self._say(f"two servers are named {entry['name']}", "mcp", index, "name")
            known = {key: value for key, value in entry.items() if key in _SERVER_KEYS}
            if self.connect is None:
                self._say("MCP servers cannot be reached from here", "mcp", index)
                continue
            try:
                servers.append(self.connect(**{"name": "", **known}, cwd=self.source.directory))
                entries.append({"name": "", **known})
            except CauselineError as error:
                for line in error.findings if isinstance(error, Invalid) and error.findings else (error.message,):
                    key, _, fault = str(line).partition(": ")
                    message, place = (fault, ("mcp", index, key)) if key in _SERVER_KEYS else (str(line), ("mcp", index))
                    self._say(message, *place)
        return servers, entries

    def _tools(self) -> tuple[list[Tool | Toolset], list[Json]]:
        tools: dict[str, Tool | Toolset] = {}
        references: list[Json] = []
        with modules_beside(self.source.directory) as modules:
            for index in self._entries("tools"):
                entry = self._table("tools", index)
                before = len(self.findings)
                for key in entry:
                    if key not in _TOOL_KEYS:
                        self._unknown(key, _TOOL_KEYS, "tools", index)
                found = self._referred(modules, entry.get("python"), index)
                if len(self.findings) == before:
                    for tool in self._configured(found, entry, index):
                        name = tool.name if isinstance(tool, Tool) else entry["python"]
                        if tools.setdefault(name, tool) is not tool and isinstance(tool, Tool):
                            self._say(f"two tools are named {tool.name}; give one another name", "tools", index)
                    references.append({**entry, "python": self._absolute(modules, entry["python"])})
        return list(tools.values()), references

    def _referred(self, modules: Modules, reference: Any, index: int) -> list[Any]:
        """What `module:name` names: one thing, or the members of a list of tools."""
        module, colon, name = reference.rpartition(":") if isinstance(reference, str) else ("", "", "")
        if not (module and colon and name):
            self._say('required; write python = "module:function"', "tools", index, "python")
            return []
        try:
            found = attribute(modules.load(module), name, module)
        except (Missing, BrokenModule) as error:
            self._say(error.message, "tools", index, "python")
            return []
        return list(cast(list[Any], found)) if isinstance(found, list | tuple) else [found]

    def _configured(self, found: list[Any], entry: Json, index: int) -> list[Tool | Toolset]:
        changes = {key: value for key, value in entry.items() if key != "python"}
        if len(found) != 1 and {"name", "description"} & set(changes):
            self._say(f"{entry['python']} is {len(found)} tools; a name or description is for one", "tools", index)
            return []
        tools: list[Tool | Toolset] = []
        for each in found:
            if isinstance(each, Toolset) and not isinstance(each, type):
                if changes:
                    self._say(f"{entry['python']} is a toolset, which has its own {', '.join(changes)}", "tools", index)
                tools.append(each)
                continue
            try:
                tool = replace(as_tool(each), **changes)
                Toolbox([tool])
                tools.append(tool)
            except InvalidTool as error:
                for line in error.findings or (error.message,):
                    key, _, fault = str(line).partition(": ")
                    self._say(*((fault, "tools", index, key) if key in changes else (str(line), "tools", index, "python")))
        return tools

    def _absolute(self, modules: Modules, reference: str) -> str:
        module, _, name = reference.rpartition(":")
        path = None if "." in module.removesuffix(".py") and not module.endswith(".py") else modules.find(module)
        return reference if path is None else f"{path}:{name}"

    def _memory(self) -> Json:
        """The table, with the file of a store by its absolute path: like all paths in a manifest it starts beside it."""
        table = dict(self._table("memory"))
        store = table.get("store")
        path = store.removeprefix(_FILE) if isinstance(store, str) and store.startswith(_FILE) else ""
        if path and not Path(path).is_absolute() and path != ":memory:":
            table["store"] = f"{_FILE}{self.source.directory / path}"
        return table

    def _context(self) -> Json:
        try:
            return plain(self._table("context"))
        except NotPlain as error:
            self._say(error.message, "context")
            return {}

    def _tokens(self) -> Mapping[str, str]:
        server = self._table("server")
        for key in server:
            if key != "tokens":
                self._unknown(key, ("tokens",), "server")
        tokens = self._table("server", "tokens") if "tokens" in server else {}
        for token, owner in tokens.items():
            if not token or not isinstance(owner, str) or not owner:
                self._say("a token maps to the name of its owner", "server", "tokens")
        return tokens

    def _together(self, options: Options, tools: list[Tool | Toolset]) -> None:
        """What only shows when options, tools and skills are put together. What toolsets offer is not known yet."""
        offered = [*(tool.name for tool in tools if isinstance(tool, Tool)), *([REMEMBER] if options.offers_remember else [])]
        is_all = all(isinstance(tool, Tool) for tool in tools)
        used = options.use_tools
        for name in () if used is None or used in ("*", "all") or not is_all else (used,) if isinstance(used, str) else used:
            if not any(fnmatchcase(tool, name) for tool in offered):
                self._say(f"{name}: {hint(name, offered)}", "agent", "use_tools")
        approval: Any = options.tool_approval
        if isinstance(approval, Mapping):
            for line in approval_findings(cast(Json, approval), offered if is_all else None):
                self._say(line, "agent", "tool_approval")
        for line in skill_findings(options):
            self._say(line, "agent", "skills")


__all__ = ["InvalidManifest", "Manifest", "ManifestFinding", "Place", "environment_findings", "manifest_from_plain", "read_manifest"]
