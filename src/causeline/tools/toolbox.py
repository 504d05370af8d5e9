"""A named set of tools: what an agent may call.

Law: one set for everybody. What the model is told, what runs, and what an error lists come from the same
Toolbox, and a name that is not in it is a fault, never ignored. Tools of a toolset are in it from its opening on.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, cast

from causeline.errors import CauselineError, Invalid
from causeline.models.messages import Json, ToolSpec
from causeline.tools.function import as_tool
from causeline.tools.skills import Skill, skill_readers, skill_text
from causeline.tools.tool import InvalidTool, Tool, ToolContext, ToolError, checked_tools, schema_tool
from causeline.tools.toolset import OpenToolsets, Toolset

ToolLike = Tool | Toolset | Callable[..., Any] | Iterable["ToolLike"]
"""A tool, a function to make one from, a toolset, or several of them."""
LOG = logging.getLogger("causeline.tools")


class ToolClash(Invalid):
    """Two tools have the same name."""

    code = "tool_clash"


class UnknownTools(Invalid):
    """Tools were named that are not there."""

    code = "unknown_tool"


class Toolbox:
    """Tools by name, in the order given; those of toolsets stand at the place of their toolset.

    `use` chooses among them by names, in which * and ? may stand: None, "*" and "all" mean all, an empty list none. `skills` narrow the
    choice by their `allowed-tools` (each skill's list; all lists together) and `disallowed-tools`. Schemas are compiled here.
    `beside` are further tools that nothing narrows, `offered` is what the toolsets offer, where that is known.
    Raises InvalidTool, ToolClash or UnknownTools, each with every fault.
    """

    def __init__(
        self,
        tools: Iterable[ToolLike] = (),
        *,
        use: "str | Sequence[str] | None" = None,
        skills: Sequence[Skill] = (),
        beside: Sequence[Tool] = (),
        offered: tuple[Any, ...] | None = None,
    ) -> None:
        self.skills = tuple(skills)
        self._use = use
        self._given = tuple(_flat(tools))
        self._beside = tuple(beside) or skill_readers(self.skills)
        self._toolsets = OpenToolsets([thing for thing in self._given if not isinstance(thing, Tool)])
        self.toolsets: tuple[Toolset, ...] = self._toolsets.toolsets
        self._offered = offered if self.toolsets else ()
        self._put_together(self._offered or ())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def settled(self) -> bool:
        """False while it holds toolsets whose tools are not known, because they have not been opened."""
        return self._offered is not None

    def is_fixed(self, name: str) -> bool:
        """Whether this tool was given itself, and is not one that a toolset offers at the moment."""
        tool = self._tools.get(name)
        return tool is not None and any(tool is thing for thing in (*self._given, *self._beside))

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        if self._specs is None:
            self._specs = tuple(each.spec() for each in self)
        return self._specs

    def skill_text(self) -> str:
        """What the skills add to the system prompt."""
        return skill_text(self.skills)

    def with_tools(self, tools: Iterable[ToolLike]) -> "Toolbox":
        """These tools and more, which neither `use` nor the skills narrow. Raises ToolClash."""
        beside = (*self._beside, *(tool for tool in _flat(tools) if isinstance(tool, Tool)))
        return Toolbox(self._given, use=self._use, skills=self.skills, beside=beside, offered=self._offered)

    def with_client(self, definitions: Iterable[Mapping[str, Any]]) -> "Toolbox":
        """These tools and the ones a client brings with a run. Raises InvalidTool, or ToolClash if one has the name of a tool here."""
        return self.with_tools(client_tools(definitions))

    async def open(self) -> None:
        """Open the toolsets and ask what they offer. Needs a `close`. Raises ToolsetFailed, and what making a Toolbox raises."""
        if not self.toolsets:
            return
        await self._toolsets.open()
        try:
            self._take(await self._toolsets.offered())
        except BaseException:
            await self._toolsets.close()
            raise

    async def close(self) -> None:
        """Close the toolsets, unless somebody else has them open."""
        if self.toolsets:
            await self._toolsets.close()

    async def refresh(self) -> None:
        """Ask the toolsets what they offer by now. One that cannot say, or says what cannot be, leaves everything as it was."""
        if not self.toolsets:
            return
        try:
            self._take(await self._toolsets.offered())
        except Exception:
            LOG.warning("a toolset could not say what it offers; what it offered before stays", exc_info=True)

    def _take(self, offered: tuple[Any, ...]) -> None:
        if offered != self._offered:
            self._put_together(offered)
            self._offered = offered

    def _put_together(self, offered: Sequence[Sequence[Any]]) -> None:
        lists = iter(offered)
        given = [tool for thing in self._given for tool in ((thing,) if isinstance(thing, Tool) else map(as_tool, next(lists, ())))]
        chosen = _chosen(_named(given), self._use, open_ended=bool(self.toolsets) and not offered)
        narrowed = _narrowed(chosen, self.skills)
        self._tools = _named([*narrowed.values(), *self._beside]) if self._beside else narrowed
        self._specs: tuple[ToolSpec, ...] | None = None


def _named(tools: Iterable[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    clashes: list[str] = []
    faults: list[str] = []
    for each in tools:
        if named.setdefault(each.name, each) is not each:
            clashes.append(each.name)
        try:
            each.compile()
        except Invalid as error:
            faults.append(error.message if isinstance(error, InvalidTool) else f"Tool {each.name!r}: {error.message}")
    if clashes:
        raise ToolClash(f"Two tools are named {', '.join(clashes)}; rename one with `name=`.", findings=clashes)
    if faults:
        raise InvalidTool(" ".join(faults), findings=faults)
    return named


def _chosen(tools: dict[str, Tool], use: "str | Sequence[str] | None", *, open_ended: bool) -> dict[str, Tool]:
    """The tools that `use` names. Where further ones may come, a name of none is no fault yet."""
    if use is None or use in ("*", "all"):
        return tools
    wanted = [use] if isinstance(use, str) else list(use)
    lines = [] if open_ended else [f"{name}: {hint(name, tools)}" for name in wanted if not any(_fits(tool, [name]) for tool in tools)]
    if lines:
        raise UnknownTools(f"use_tools names what is not there: {'; '.join(lines)}.", findings=lines)
    return {name: each for name, each in tools.items() if _fits(name, wanted)}


def _narrowed(tools: dict[str, Tool], skills: Sequence[Skill]) -> dict[str, Tool]:
    """Without the tools that a skill's list leaves out. A name in such a list may be of a tool this agent does not have."""
    allowed = [skill.allowed_tools for skill in skills if skill.allowed_tools is not None]
    banned = [pattern for skill in skills for pattern in skill.disallowed_tools]
    return {name: each for name, each in tools.items() if all(_fits(name, patterns) for patterns in allowed) and not _fits(name, banned)}


def hint(name: str, names: Iterable[str]) -> str:
    """What to do about a tool name that is not among `names`."""
    there = list(names)
    close = get_close_matches(name, there, n=1)
    return f"no such tool; did you mean {close[0]}?" if close else f"no such tool; there are {', '.join(there) or 'none'}"


def client_tools(definitions: Iterable[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Tools from a client's definitions `{name, description?, parameters?}`; only the client can run them.

    Raises InvalidTool with every fault.
    """
    tools: list[Tool] = []
    lines: list[str] = []
    for index, each in enumerate(definitions):
        try:
            tools.append(_client_tool(each))
            tools[-1].body.schema.compile()
        except CauselineError as error:
            lines.append(f"tools[{index}]: {error.message}")
    if lines:
        raise InvalidTool(f"The run's tools are not usable: {'; '.join(lines)}", findings=lines)
    return tuple(tools)


async def _elsewhere(_arguments: Json, _context: ToolContext) -> None:
    raise ToolError("This tool runs at the client.")


def _client_tool(definition: object) -> Tool:
    if not isinstance(definition, Mapping):
        raise InvalidTool("expected an object with name, description and parameters")
    given = cast(Mapping[str, Any], definition)
    unknown = set(given) - {"name", "description", "parameters"}
    if unknown:
        raise InvalidTool(f"unknown field {', '.join(sorted(map(str, unknown)))}; a definition has name, description and parameters")
    parameters = given.get("parameters")
    description = given.get("description")
    return schema_tool(
        given.get("name", ""), "" if description is None else description, {} if parameters is None else parameters, _elsewhere, client=True
    )


def _flat(things: Iterable[ToolLike]) -> Iterator[Tool | Toolset]:
    for thing in checked_tools(things):
        if isinstance(thing, list | tuple):
            yield from _flat(cast(Iterable[ToolLike], thing))
        elif isinstance(thing, Toolset) and not isinstance(thing, type):
            yield thing
        else:
            yield as_tool(thing)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
