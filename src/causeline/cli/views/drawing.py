"""A causal log as a Mermaid flowchart: nodes with their kinds, arrows from causes to effects.

Law: pure and linear; nothing a node says can end its label or start a directive.
"""

from collections.abc import Iterable, Mapping

from causeline.causal import CausalNode
from causeline.cli.views.clean_text import short
from causeline.cli.views.trace import node_text

_ESCAPES = str.maketrans({'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "#": "#35;", "%": "#37;", "`": "#96;", "\\": "#92;"})
_SHAPES: Mapping[str, tuple[str, str]] = {
    "goal": ('(["', '"])'), "answer": ('(["', '"])'), "tool_call": ('[/"', '"/]'), "tool_result": ('[\\"', '"\\]'),
    "resource": ('[("', '")]'), "semantic": ('[("', '")]'), "protocol_error": ('{{"', '"}}'),
}  # fmt: skip
_LABEL = 60


def causal_graph(nodes: Iterable[CausalNode]) -> str:
    """Mermaid text, ending in one newline. Ids are `n1`, `n2` ... in log order; parents outside `nodes` are left out."""
    numbers: dict[str, int] = {}
    lines = ["flowchart TB"]
    for node in nodes:
        number = numbers[node.id] = len(numbers) + 1
        left, right = _SHAPES.get(node.kind, ('["', '"]'))
        text = short(node_text(node.kind, node.payload), _LABEL).translate(_ESCAPES)
        lines.append(f"n{number}{left}{node.kind}: {text}{right}")
        lines.extend(f"n{numbers[parent]} --> n{number}" for parent in node.parents if parent in numbers)
    return "\n".join(lines) + "\n"
