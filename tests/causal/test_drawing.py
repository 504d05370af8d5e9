"""The causal graph as Mermaid, DOT, SVG and JSON."""

import re
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from causeline.causal import AgentState
from causeline.causal.view.drawing import FORMATS, causal_graph, dot, draw, graph_json, svg

AT = "2026-01-01T00:00:00.000Z"


def a_log():
    log = AgentState()
    goal = log.append("goal", {"text": "What is x?"}, created_at=AT)
    said = log.append("inference", {"text": "", "calls": [{"name": "look"}], "finish": "tool_calls"}, created_at=AT)
    call = log.append("tool_call", {"call_id": "c", "name": "look", "args": {"t": "x"}}, [said.id], created_at=AT)
    log.append("tool_result", {"call_id": "c", "tool": "look", "result": 'a "b"\n%% <c>', "ok": True}, [call.id], created_at=AT)
    return log, goal


def test_nodes_and_their_causes_are_drawn_in_log_order():
    log, _ = a_log()
    assert causal_graph(log.nodes).splitlines() == [
        "flowchart TB",
        'n1(["goal: What is x?"])',
        'n2["inference: (calls look)"]',
        "n1 --> n2",
        'n3[/"tool_call: look {#quot;t#quot;: #quot;x#quot;}"/]',
        "n2 --> n3",
        'n4[\\"tool_result: look: a #quot;b#quot; #37;#37; #lt;c#gt;"\\]',
        "n3 --> n4",
    ]


def test_causes_outside_the_part_are_left_out():
    log, _ = a_log()
    assert "-->" not in causal_graph(log.nodes[1:2])


def test_the_other_formats_have_the_same_nodes_and_arrows():
    log, goal = a_log()
    lines = dot(log.nodes).splitlines()
    assert lines[0], lines[-1] == ("digraph causes {", "}")
    assert [line for line in lines if "->" in line] == ["n1 -> n2;", "n2 -> n3;", "n3 -> n4;"]
    assert f'n1 [shape=ellipse, label="goal: What is x?", tooltip="{goal.id}"];' in lines
    plain = graph_json(log.nodes, log.frontier)
    assert [(row["id"], row["kind"], row["head"]) for row in plain["nodes"]] == [
        (node.id, node.kind, node.id in log.frontier) for node in log.nodes
    ]
    assert [(edge["source"], edge["target"]) for edge in plain["edges"]] == [(log.nodes[n].id, log.nodes[n + 1].id) for n in range(3)]
    picture = ET.fromstring(svg(log.nodes))
    assert [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")] == [node.id for node in log.nodes]
    assert len([path for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("marker-end")]) == 3


@given(st.lists(st.text(max_size=40), max_size=4))
def test_no_text_leaves_its_label(texts):
    log = AgentState()
    for number, text in enumerate(texts):
        log.append(
            "tool_result",
            {"call_id": str(number), "tool": "t", "result": text.encode("utf-8", "replace").decode(), "ok": True},
            created_at=AT,
        )
    arrows = max(len(texts) - 1, 0)
    assert len(ET.fromstring(svg(log.nodes))) == 1 + len(texts) + arrows
    written = re.sub(r'"(?:\\.|[^"\\])*"', "_", dot(log.nodes))
    assert '"' not in written
    assert len(written.splitlines()) == 4 + len(texts) + arrows
    assert len(causal_graph(log.nodes).splitlines()) == 1 + len(texts) + arrows
    assert all(draw(log.nodes, format) for format in FORMATS)
