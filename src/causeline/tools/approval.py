"""Whether a call may run: one closed vocabulary, resolved for one call at a time.

Law: whatever is not understood fails closed. A wrong mode is a finding when the agent is built
(`approval_findings`) and a denial when it gets past that; a decision is never remembered here.
"""

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from causeline.errors import words_of
from causeline.graph.engine.containment import from_outside

ApprovalWord = Literal["auto", "ask", "deny", "interactive"]
MODES: tuple[str, ...] = ("auto", "ask", "deny", "interactive")


@dataclass(frozen=True, slots=True)
class Approve:
    """Run the call."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run it. `reason` is shown to the model and to the user."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person first. `interactive` says that a terminal, where the run has one, is to be asked on the spot."""

    prompt: str = ""
    interactive: bool = False


Verdict = Approve | Deny | Ask
ApprovalFunction = Callable[[str, dict[str, Any]], "bool | str | Verdict | Awaitable[bool | str | Verdict]"]
ApprovalMode = ApprovalWord | str | Mapping[str, Any] | ApprovalFunction
"""`"auto" | "ask" | "deny" | "interactive"`, a map of name patterns to modes, or a function of (name, args)."""


def approval_findings(mode: object, names: Collection[str] | None = None) -> list[str]:
    """What is wrong with a mode, one line each. With `names` (all tools there are), a pattern that fits none is a fault too."""
    if isinstance(mode, str):
        return [] if mode in MODES else [f"{mode!r} is not an approval mode; use {_listed()}, a map of patterns or a function"]
    if isinstance(mode, Mapping):
        return [line for pattern, inner in cast(Mapping[Any, Any], mode).items() for line in _pattern_findings(pattern, inner, names)]
    if callable(mode):
        return []
    return [f"{mode!r} is not an approval mode; use {_listed()}, a map of patterns or a function"]


def _pattern_findings(pattern: object, inner: object, names: Collection[str] | None) -> list[str]:
    if not isinstance(pattern, str) or not pattern:
        return [f"{pattern!r}: a pattern is a tool name, with * and ? where needed"]
    if isinstance(inner, Mapping):
        return [f"{pattern}: a map inside a map; give {_listed()} or a function"]
    lines = [f"{pattern}: {line}" for line in approval_findings(inner)]
    if names is not None and not any(fnmatchcase(name, pattern) for name in names):
        lines.append(f"{pattern}: fits no tool; there are {', '.join(sorted(names)) or 'none'}")
    return lines


async def resolve_approval(mode: object, name: str, args: Mapping[str, Any]) -> Verdict:
    """The verdict of one mode on one call.

    In a map the most specific pattern wins: the name itself, else the most letters that are no wildcard; among equals the
    strictest. A name that no pattern fits is approved. A function gets a copy of the arguments; if it raises, or returns
    anything outside the vocabulary (True, False, "approve", "deny", "pause", Approve, Deny, Ask), the call is denied.
    """
    if isinstance(mode, str):
        return _word(mode, name, args)
    if isinstance(mode, Mapping):
        modes = _most_specific(cast(Mapping[str, Any], mode), name)
        verdicts = [await resolve_approval(inner, name, args) for inner in modes if not isinstance(inner, Mapping)]
        if len(verdicts) < len(modes):
            return Deny(f"the approval map for {name!r} holds another map")
        return strictest(verdicts) if verdicts else Approve()
    if callable(mode):
        return await _from_function(cast(ApprovalFunction, mode), name, args)
    return Deny(f"unknown approval mode {mode!r}")


async def resolve_all(modes: Sequence[object], name: str, args: Mapping[str, Any]) -> Verdict:
    """The strictest verdict of several modes, such as a tool's own and its agent's. None among them has no say."""
    return strictest([await resolve_approval(mode, name, args) for mode in modes if mode is not None])


def approves_all(modes: Sequence[object], name: str) -> bool:
    """Whether every call of this tool is approved whatever its arguments, so that nobody has to be asked first."""
    inner: list[object] = []
    for mode in modes:
        inner.extend(_most_specific(cast(Mapping[str, Any], mode), name) if isinstance(mode, Mapping) else [mode])
    return all(mode is None or mode == "auto" for mode in inner)


def strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """The first Deny, else the first Ask, else Approve."""
    for kind in (Deny, Ask):
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    return Approve()


def default_prompt(name: str, args: Mapping[str, Any]) -> str:
    """What a person is asked when nobody wrote a prompt; at most about 500 characters."""
    text = json.dumps(args, ensure_ascii=False, default=str)
    return f"Allow {name} with {text if len(text) <= 450 else text[:450] + ' ...'}?"


def _word(mode: str, name: str, args: Mapping[str, Any]) -> Verdict:
    if mode == "auto":
        return Approve()
    if mode == "deny":
        return Deny("not allowed here")
    if mode in ("ask", "interactive"):
        return Ask(default_prompt(name, args), interactive=mode == "interactive")
    return Deny(f"unknown approval mode {mode!r}")


def _most_specific(modes: Mapping[str, Any], name: str) -> list[Any]:
    if name in modes:
        return [modes[name]]
    fitting = [(sum(letter not in "*?[]" for letter in pattern), inner) for pattern, inner in modes.items() if fnmatchcase(name, pattern)]
    best = max((score for score, _ in fitting), default=0)
    return [inner for score, inner in fitting if score == best]


async def _from_function(function: ApprovalFunction, name: str, args: Mapping[str, Any]) -> Verdict:
    try:
        said: object = function(name, copy.deepcopy(dict(args)))
        if inspect.isawaitable(said):
            said = cast(object, await said)
    except BaseException as error:
        if from_outside(error):
            raise
        return Deny(f"the approval function failed: {type(error).__name__}: {words_of(error)}")
    if isinstance(said, Approve | Deny):
        return said
    if isinstance(said, Ask):
        return said if said.prompt else Ask(default_prompt(name, args), said.interactive)
    if said is True or said == "approve":
        return Approve()
    if said == "pause":
        return Ask(default_prompt(name, args))
    if said is False or said == "deny":
        return Deny("not approved")
    shown = said if isinstance(said, str) else type(said).__name__
    return Deny(f"the approval function returned {shown!r}; expected True, False, 'approve', 'deny', 'pause', Approve, Deny or Ask")


def _listed() -> str:
    return ", ".join(f'"{mode}"' for mode in MODES)
