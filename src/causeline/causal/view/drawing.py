"""A causal log drawn: Mermaid, DOT, SVG and plain JSON; nodes with their kinds, arrows from causes to effects.

Law: pure and linear; nothing a node says can end its label or start a directive. Nodes come in log order; causes
outside the drawn part are left out.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from causeline.causal.causal_node import CausalNode
from causeline.causal.view.node_text import node_text
from causeline.plain_text import short

Format = Literal["mermaid", "dot", "svg", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)

_MERMAID_ESCAPES = str.maketrans(
    {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "%": "#37;", "`": "#96;", "\\": "#92;"}
)
_MERMAID_SHAPES: Mapping[str, tuple[str, str]] = {
    "goal": ('(["', '"])'), "answer": ('(["', '"])'), "tool_call": ('[/"', '"/]'), "tool_result": ('[\\"', '"\\]'),
    "resource": ('[("', '")]'), "semantic": ('[("', '")]'), "protocol_error": ('{{"', '"}}'),
}  # fmt: skip
_DOT_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\"})
_DOT_SHAPES: Mapping[str, str] = {
    "goal": "ellipse", "answer": "ellipse", "tool_call": "parallelogram", "tool_result": "parallelogram", "resource": "cylinder",
    "semantic": "cylinder", "protocol_error": "octagon",
}  # fmt: skip
_XML_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;"})
_FILLS: Mapping[str, str] = {
    "goal": "#dbeafe", "answer": "#dcfce7", "inference": "#f5f5f5", "tool_call": "#fef3c7", "tool_result": "#fde68a",
    "protocol_error": "#fee2e2", "verification": "#ede9fe", "resource": "#e0f2fe", "semantic": "#fae8ff", "system": "#e5e5e5",
}  # fmt: skip
_LABEL = 60
_ARROWHEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#737373"/></marker></defs>'
)
_BOX, _GAP, _ROW = (360, 30), 20, 64


def causal_graph(nodes: Iterable[CausalNode]) -> str:
    """Mermaid text, ending in one newline. Ids are `n1`, `n2` ... in log order."""
    lines = ["flowchart TB"]
    for number, node, parents in _numbered(nodes):
        left, right = _MERMAID_SHAPES.get(node.kind, ('["', '"]'))
        lines.append(f"n{number}{left}{_label(node).translate(_MERMAID_ESCAPES)}{right}")
        lines.extend(f"n{parent} --> n{number}" for parent in parents)
    return "\n".join(lines) + "\n"


def dot(nodes: Iterable[CausalNode]) -> str:
    """Text for Graphviz, ending in one newline, with the ids and the order of `causal_graph`."""
    lines = ["digraph causes {", "rankdir=TB;", 'node [fontname="sans-serif"];']
    for number, node, parents in _numbered(nodes):
        shape = _DOT_SHAPES.get(node.kind, "box")
        label = _label(node).translate(_DOT_ESCAPES)
        lines.append(f'n{number} [shape={shape}, label="{label}", tooltip="{node.id}"];')
        lines.extend(f"n{parent} -> n{number};" for parent in parents)
    return "\n".join([*lines, "}"]) + "\n"


def graph_json(nodes: Iterable[CausalNode], frontier: Collection[str] = ()) -> dict[str, Any]:
    """`{nodes: [{id, kind, text, created_at, resource_key, head}], edges: [{source, target}]}`, ids of causal nodes; `head` says
    whether a node is in the frontier."""
    listed = list(nodes)
    ids = [node.id for node in listed]
    edges = [{"source": ids[parent - 1], "target": node.id} for _, node, parents in _numbered(listed) for parent in parents]
    heads = set(frontier)
    rows = [
        {
            "id": node.id,
            "kind": node.kind,
            "text": node_text(node.kind, node.payload),
            "created_at": node.created_at,
            "resource_key": node.resource_key,
            "head": node.id in heads,
        }
        for node in listed
    ]
    return {"nodes": rows, "edges": edges}


def svg(nodes: Iterable[CausalNode]) -> str:
    """A picture that needs no library and runs no script. A node stands one row below its lowest cause."""
    layers: dict[int, int] = {}
    widths: dict[int, int] = {}
    places: dict[int, tuple[int, int]] = {}
    boxes: list[str] = []
    arrows: list[str] = []
    for number, node, parents in _numbered(nodes):
        layer = layers[number] = 1 + max((layers[parent] for parent in parents), default=-1)
        column = widths.get(layer, 0)
        widths[layer] = column + 1
        left, top = places[number] = (_GAP + column * (_BOX[0] + _GAP), _GAP + layer * _ROW)
        boxes.append(_box(node, left, top))
        arrows.extend(_arrow(places[parent], (left, top)) for parent in parents)
    width = _GAP + max(widths.values(), default=1) * (_BOX[0] + _GAP)
    height = _GAP * 2 + len(widths) * _ROW
    first = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">'
    )
    return "\n".join([first, _ARROWHEAD, *arrows, *boxes, "</svg>\n"])


def draw(nodes: Sequence[CausalNode], format: Format, frontier: Collection[str] = ()) -> Any:
    """A drawing by the name of its format: text, and for `json` a plain object."""
    return graph_json(nodes, frontier) if format == "json" else _TEXTS[format](nodes)


_TEXTS: Mapping[str, Callable[[Iterable[CausalNode]], str]] = {"mermaid": causal_graph, "dot": dot, "svg": svg}


def _numbered(nodes: Iterable[CausalNode]) -> Iterable[tuple[int, CausalNode, list[int]]]:
    """Each node with its number and those of its causes that came before."""
    numbers: dict[str, int] = {}
    for node in nodes:
        parents = [numbers[parent] for parent in node.parents if parent in numbers]
        number = numbers[node.id] = len(numbers) + 1
        yield number, node, parents


def _label(node: CausalNode) -> str:
    return f"{node.kind}: {short(node_text(node.kind, node.payload), _LABEL)}"


def _box(node: CausalNode, left: int, top: int) -> str:
    width, height = _BOX
    rounded = 15 if node.kind in ("goal", "answer") else 4
    return (
        f'<g><title>{node.id}</title><rect x="{left}" y="{top}" width="{width}" height="{height}" rx="{rounded}" '
        f'fill="{_FILLS.get(node.kind, "#ffffff")}" stroke="#737373"/>'
        f'<text x="{left + 8}" y="{top + 19}">{_label(node).translate(_XML_ESCAPES)}</text></g>'
    )


def _arrow(cause: tuple[int, int], effect: tuple[int, int]) -> str:
    width, height = _BOX
    start, end = (cause[0] + width // 2, cause[1] + height), (effect[0] + width // 2, effect[1])
    middle = (start[1] + end[1]) // 2
    return (
        f'<path d="M{start[0]},{start[1]} C{start[0]},{middle} {end[0]},{middle} {end[0]},{end[1]}" '
        'fill="none" stroke="#737373" marker-end="url(#arrow)"/>'
    )
