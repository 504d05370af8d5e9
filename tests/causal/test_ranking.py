"""What a view prefers: relevance in any script, kind, age, or a ranking of one's own."""

import pytest

from causeline.causal import project
from causeline.causal.view.catalog import catalog_of
from causeline.causal.view.selection import _score
from causeline.causal.view.words import query_terms, terms
from causeline.errors import Misuse
from tests.causal.logs import NOW, ask, log, remember, shown, turn


def test_the_ranking_can_be_replaced():
    state = log(turn("hello", "hi", []))
    wanted = remember(state, "odd", "zzz")
    for index in range(60):
        remember(state, f"k{index}", f"lorem {index}")
    ask(state, "lorem?")
    assert wanted.id not in project(state, "lorem?", 4_000).ids
    asked = []

    def rank(query, nodes):
        asked.append((query, len(nodes)))
        return [1.0 if node.id == wanted.id else 0.0 for node in nodes]

    assert wanted.id in project(state, "lorem?", 4_000, rank=rank).ids
    assert asked == [("lorem?", 64)]
    with pytest.raises(Misuse, match="0 numbers"):
        project(state, "lorem?", 4_000, rank=lambda _query, _nodes: [])


def test_a_question_that_names_the_type_prefers_it():
    state = log(turn("hello", "hi", []))
    wise = remember(state, "old", "Measure twice.", kind="wisdom")
    for index in range(80):
        remember(state, f"k{index}", f"note {index}")
    ask(state, "Any wisdom?")
    assert wise.id in project(state, "Any wisdom?", 4_000).ids


@pytest.mark.parametrize(
    "fact, question",
    [
        ("Ильзе нравится тихая гостиница над морем.", "Какая гостиница нравится Ильзе?"),
        ("用户喜欢安静的酒店", "推荐一家酒店"),
        ("ユーザーは静かなホテルが好きです", "ホテルを探して"),
        ("المستخدم يفضل الفنادق الهادئة", "ما الفنادق المناسبة؟"),
        ("Die Straße heißt Größenwahn.", "Wie heisst die STRASSE Größenwahn?"),
    ],
    ids=["ru", "zh", "ja", "ar", "de"],
)
def test_words_of_any_script_are_found(fact, question):
    state = log(turn("hello", "hi", []))
    wanted = remember(state, "fact", fact)
    for index in range(80):
        remember(state, f"k{index}", f"note {index}")
    ask(state, question)
    view = project(state, question, 3_000)
    assert wanted.id in view.ids
    assert fact in shown(view)


def test_scores_of_nodes_the_question_does_not_touch_follow_kind_and_age():
    state = log(turn("hello", "hi", [("read_file", {"path": "a"}, "x")]))
    state.append("verification", {"method": "m"}, created_at=NOW)
    state.append("resource", {"path": "a"}, created_at=NOW, resource_key="resource:file:a")
    remember(state, "k", "v")
    catalog = catalog_of(state)
    total = len(state)
    wanted = {"goal": 0.3, "tool_result": 0.25, "verification": 0.25, "resource": 0.25, "semantic": 0.15, "answer": 0.0}
    for place, node in enumerate(state.nodes):
        if node.kind in wanted:
            plain = wanted[node.kind] + 0.2 * (place + 1) / total
            assert _score(catalog, place, 0.0, frozenset()) == pytest.approx(plain)
            assert _score(catalog, place, 0.5, frozenset()) == pytest.approx(plain + 0.275)
            named = _score(catalog, place, 0.0, frozenset({"memorys"})) - plain
            assert named == pytest.approx(0.35 if node.kind == "semantic" else 0)


def test_terms():
    assert terms("Straße") == terms("STRASSE")
    assert terms("Read src/a_file.py. Then (stop), ok -- x/") == {"read", "src/a_file.py", "then", "stop"}
    assert query_terms("What did the Otter say?", "about otters") == {"otter", "say", "otters"}
    assert terms("酒店在哪") == {"酒店", "店在", "在哪", "酒店在哪"}
    assert len(terms(" ".join(f"word{index}" for index in range(5_000)))) == 1_000
