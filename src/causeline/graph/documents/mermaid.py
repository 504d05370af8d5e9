"""A document as Mermaid flowchart text, equal to what the reference draws.

Law: pure and linear; no name, port or IRI, however odd, can end its label, start a directive or collide with another.
"""

import re
import unicodedata
from collections.abc import Mapping

from causeline.graph.documents.document import Document, Embedded, Gather, Phase, Placement, Scatter, Single, Terminal, outputs_of

_INIT = '%%{init: {"flowchart":{"nodeSpacing":92,"rankSpacing":104,"padding":28}}}%%'
_RESERVED = frozenset(
    {
        "end",
        "graph",
        "flowchart",
        "flowchart-elk",
        "subgraph",
        "style",
        "linkstyle",
        "classdef",
        "class",
        "click",
        "call",
        "href",
        "default",
        "interpolate",
        "direction",
        "o",
        "x",
        "v",
        "tb",
        "td",
        "bt",
        "rl",
        "lr",
        "br",
    }
)
_ESCAPES: Mapping[str, str] = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "%": "#37;", "`": "#96;", "\\": "#92;"}
_PLAIN_PORT = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*\Z")


def mermaid(document: Document) -> str:
    """The drawing, ending in exactly one newline. Faulty documents are drawn too, as far as they go."""
    ids = _Ids()
    lines = [_INIT, "flowchart TB", f"%% {_label(document.name)} (v{_label(document.version)})"]
    for label, target in document.entrypoints.items():
        entry = ids.of(f"entry\0{label}", f"entry_{label}")
        lines += [f'{entry}(["{_label(label)}"])', f"{entry} --> {ids.of(target)}"]
    classes: dict[str, list[str]] = {}
    for placement in document.placements.values():
        own = ids.of(placement.id)
        lines.append(own + _shape(placement))
        lines += [f"{own} -->|{_port(port)}| {ids.of(target)}" for port, target in outputs_of(placement).items()]
        for name in _classes(placement):
            classes.setdefault(name, []).append(own)
    for name, members in classes.items():
        lines += [f"classDef {name} stroke-dasharray: 4 2", f"class {','.join(members)} {name}"]
    return "\n".join(lines) + "\n"


class _Ids:
    """Gives every IRI a Mermaid id of its own."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self.used: set[str] = set()
        self.count: dict[str, int] = {}

    def of(self, iri: str, text: str | None = None) -> str:
        known = self.given.get(iri)
        if known is None:
            wanted = found = _id(iri if text is None else text)
            while found in self.used:
                self.count[wanted] = self.count.get(wanted, 1) + 1
                found = f"{wanted}_{self.count[wanted]}"
            self.used.add(found)
            known = self.given[iri] = found
        return known


def _id(iri: str) -> str:
    """Only characters Mermaid reads as part of an id; a hyphen only between two others."""
    text = re.sub(r"[^A-Za-z0-9_/.-]", "_", iri)
    text = re.sub(r"-(?![A-Za-z0-9_/])", "_", text)
    first = re.match(r"\w*", text)
    return f"n_{text}" if not first or not first[0] or first[0].lower() in _RESERVED else text


def _label(text: str) -> str:
    """Text for inside quotes, on one line."""
    return "".join(_ESCAPES.get(one) or (" " if unicodedata.category(one) in ("Cc", "Zl", "Zp") else one) for one in text)


def _port(port: str) -> str:
    return port if _PLAIN_PORT.match(port) and port.lower() not in _RESERVED else f'"{_label(port)}"'


def _shape(placement: Placement) -> str:
    name = _label(placement.name)
    if isinstance(placement, Scatter):
        tank = placement.reservoir
        return f'[/"{name} ({_label(tank.key_field)} x {tank.capacity})"/]' if tank else f'[/"{name}"/]'
    if isinstance(placement, Terminal):
        return f'((("{name}")))' if placement.outcome == "completed" else f'>"{name}"]'
    if isinstance(placement, Phase):
        return f'(["{name} ({placement.phase})"])'
    left, right = {Single: ("[", "]"), Gather: ("{", "}"), Embedded: ("[[", "]]")}[type(placement)]
    return f'{left}"{name}"{right}'


def _classes(placement: Placement) -> list[str]:
    found = ["reservoir"] if isinstance(placement, Scatter) and placement.reservoir else []
    role = placement.container if isinstance(placement, Scatter | Embedded) else None
    return [*found, "contained-" + re.sub(r"[^A-Za-z0-9_]", "_", role)] if role else found
