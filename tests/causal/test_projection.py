"""The bounded view: what must be there is there, what is asked for is found, the budget holds, and nothing but the arguments counts."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.causal import AgentState, Append, ViewTooLarge, apply, project
from causeline.causal.view.projection import tokens
from causeline.errors import Exhausted
from tests.causal.logs import LATER, NOW, SYSTEM, appended, ask, log, remember, shown, turn
from tests.causal.values import any_value


def assert_well_paired(view):
    """What a chat provider demands: after an assistant message with calls come exactly its results, in order."""
    waiting = []
    for one in view.messages:
        if one["role"] == "tool":
            assert waiting, one
            assert one["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting, one
            waiting = [call["id"] for call in one["tool_calls"]]
    assert not waiting


# the upstream list


def test_an_old_fact_is_found_among_a_hundred_long_memories():
    state = log(turn("hello", "hi", []))
    fact = remember(state, "passport", "The passport number of Ilse is X4711.")
    noise = "The weather report mentions clouds, wind and a little rain over the northern hills. " * 35
    for index in range(100):
        remember(state, f"noise-{index}", f"{index}: {noise}")
    ask(state, "What is the passport number of Ilse?")
    assert len(json.dumps(state.to_json())) > 4 * 64_000
    for budget in (64_000, 4_000, 500):
        view = project(state, "What is the passport number of Ilse?", budget)
        assert fact.id in view.ids
        assert "X4711" in shown(view)
        assert tokens(view.messages) <= budget


def test_a_hundred_turns_stay_within_two_thousand_tokens():
    state = log()
    for index in range(100):
        results = [("search", {"q": f"topic {index}"}, f"Paragraph {index}. " * 40)]
        apply(state, turn(f"Tell me about topic {index}, please.", f"Topic {index} is fine. " * 10, results, prefix=f"t{index}c"), NOW)
        if index % 10 == 9:
            ask(state, f"And topic {index + 1}?")
            view = project(state, f"And topic {index + 1}?", 2_000)
            assert tokens(view.messages) <= 2_000
            assert len(shown(view)) < 2_000 * 4 * 2
            assert_well_paired(view)


def test_identical_reads_render_once():
    rounds = [("read_file", {"path": "a.txt"}, {"path": "a.txt", "text": "needle in a haystack"})] * 60
    state = log(turn("read it often", "done", rounds))
    ask(state, "what does a.txt say?")
    view = project(state, "what does a.txt say?", 16_000)
    assert shown(view).count("needle in a haystack") == 1
    assert sum(one["role"] == "tool" for one in view.messages) == 1


def test_many_tool_steps_keep_forty_nodes():
    rounds = [("search", {"q": f"term {index}"}, f"hit {index} for the quarterly report") for index in range(120)]
    state = log(turn("search a lot for the quarterly report", "done", rounds)[:-2])
    view = project(state, "quarterly report", 64_000)
    assert 10 < len(view.ids) <= 40
    assert_well_paired(view)
    assert "hit 119" in shown(view)


def test_reads_at_two_offsets_both_survive():
    rounds = [("read_file", {"path": "a.txt", "offset": at}, f"lines from {at}") for at in (0, 500, 0, 500)]
    state = log(turn("read both halves", "done", rounds))
    ask(state, "what do the halves say?")
    text = shown(project(state, "what do the halves say?", 16_000))
    assert (text.count('"lines from 0"'), text.count('"lines from 500"')) == (1, 1)


# what a view holds


def test_a_view_has_system_digest_history_and_the_ids_of_what_it_shows():
    state = log(turn("Where is the book?", "On shelf 4.", [("lookup", {"title": "the book"}, {"shelf": 4})]))
    goal = ask(state, "And who wrote it?")
    view = project(state, "And who wrote it?", 4_000)
    roles = [one["role"] for one in view.messages]
    assert roles == ["system", "system", "user", "assistant", "tool", "assistant", "user"]
    assert view.messages[0]["content"] == SYSTEM
    assert view.messages[1]["content"] == view.digest
    assert view.messages[3]["tool_calls"] == [{"id": "c0", "name": "lookup", "arguments": {"title": "the book"}}]
    assert view.messages[4] == {
        "id": state.nodes[4].id,
        "role": "tool",
        "content": '{"shelf":4}',
        "tool_calls": [],
        "tool_call_id": "c0",
        "is_error": False,
    }
    assert view.messages[-1]["content"] == "And who wrote it?"
    kinds = [state.node(name).kind for name in view.ids]
    assert kinds == ["system", "goal", "inference", "tool_call", "tool_result", "answer", "goal"]
    assert view.ids[-1] == goal.id
    assert "nodes: 8 (goal 2, inference 2, answer 1, system 1, tool_call 1, tool_result 1)" in view.digest
    assert goal.id[:11] in view.digest


def test_the_digest_is_there_even_for_an_empty_log():
    view = project(AgentState(), "anything", 200)
    assert view.ids == ()
    assert [one["content"] for one in view.messages] == [view.digest]
    assert "nodes: 0" in view.digest
    assert "heads: none" in view.digest


def test_the_digest_lists_current_resources_and_changes():
    state = log(turn("write it", "done", [("write_file", {"path": "a.txt"}, {"ok": True})]))
    for index in range(3):
        payload = {"path": "a.txt", "operation": "write_file", "succeeded": True, "bytes": 10 + index, "contentHash": "ab" * 32}
        state.append("resource", payload, created_at=NOW, resource_key="resource:file:a.txt")
    state.append("resource", {"path": "b", "operation": "read_file", "succeeded": False}, created_at=NOW, resource_key="resource:file:b")
    digest = project(state, "", 4_000).digest
    assert "resource resource:file:a.txt: node 10, write_file, ok, 12 bytes, hash abababababab" in digest
    assert "resource resource:file:b: node 11, read_file, failed" in digest
    assert "most versions: resource:file:a.txt 3" in digest
    assert "last changes: a.txt (write_file), a.txt (write_file), a.txt (write_file)" in digest
    assert "calls: write_file 1" in digest


def test_only_the_current_version_is_shown():
    state = log(turn("hello", "hi", []))
    remember(state, "city", "Ilse lives in Ulm.")
    remember(state, "city", "Ilse lives in Bonn.")
    ask(state, "Where does Ilse live?")
    text = shown(project(state, "Where does Ilse live?", 4_000))
    assert "Bonn" in text
    assert "Ulm" not in text


def test_resource_heads_compete_instead_of_filling_the_view():
    state = log(turn("index everything", "done", []))
    for index in range(500):
        text = "the harbour master's telephone is 555 0199" if index == 7 else f"content number {index} " * 30
        value = {"path": f"f{index}.txt", "operation": "read_file", "succeeded": True, "value": text}
        state.append("resource", value, [state.nodes[0].id], created_at=NOW, resource_key=f"resource:file:f{index}.txt", advance=False)
    ask(state, "What is the telephone of the harbour master?")
    view = project(state, "What is the telephone of the harbour master?", 3_000)
    assert "555 0199" in shown(view)
    assert len(view.ids) <= 40


@pytest.mark.parametrize("key, label", [("recall", "recalled from earlier runs"), ("memory", "recalled from long-term memory")])
def test_recalled_text_is_shown_for_its_goal_and_never_again(key, label):
    state = log()
    goal = ask(state, "What did we say about otters?")
    value = {"path": key, "operation": "recall", "succeeded": True, "value": {"text": "Otters hold hands.", "citations": []}}
    recall = state.append("resource", value, [goal.id], created_at=NOW, resource_key=f"{key}:{goal.id}", advance=False)
    view = project(state, "What did we say about otters?", 4_000)
    assert f"[{label}] Otters hold hands." in view.digest
    assert recall.id in view.ids
    ask(state, "And what else about otters?")
    later = project(state, "And what else about otters?", 4_000)
    assert "hold hands" not in shown(later)
    assert recall.id not in later.ids


def test_a_recall_that_found_nothing_is_not_shown():
    state = log()
    goal = ask(state, "What did we say about otters?")
    for payload in ({"succeeded": False, "value": {"text": "x"}}, {"succeeded": True, "value": {"text": ""}}):
        state.append("resource", payload, [goal.id], created_at=NOW, resource_key=f"recall:{goal.id}", advance=False)
        assert len(project(state, "otters", 4_000).ids) == 2


def test_old_questions_come_with_their_answers():
    state = log()
    for index in range(60):
        apply(state, turn(f"What is the colour of item {index}?", f"It is shade {index}.", []), NOW)
    ask(state, "Which colour had item 3?")
    view = project(state, "Which colour had item 3?", 8_000)
    kinds = [one["role"] for one in view.messages[2:-1]]
    assert kinds == ["user", "assistant"] * (len(kinds) // 2)
    assert len(kinds) > 10


def test_an_open_call_and_a_failed_one_are_told():
    state = log(turn("go", "never", [("boom", {"x": 1}, "it broke")])[:-2])
    failed = state.nodes[4]
    assert failed.kind == "tool_result"
    reply = Append("inference", {"text": "again", "calls": [], "finish": "tool_calls"})
    apply(state, [reply, Append("tool_call", {"call_id": "c9", "name": "pending_tool", "args": {}}, (reply,))], NOW)
    view = project(state, "go", 4_000)
    assert_well_paired(view)
    assert "pending_tool" in view.digest
    assert "HEAD" in view.digest
    bad = log(turn("go", "x", [("boom", {}, "no")])[:-3])
    bad.append("tool_result", {"call_id": "c0", "tool": "boom", "result": "no", "ok": False}, created_at=NOW)
    assert project(bad, "go", 4_000).messages[-1]["is_error"] is True


# budget


def test_a_long_result_is_cut_visibly_and_the_question_never():
    question = "Summarise this. " + "Please mind every word. " * 40
    state = log(turn(question, "x", [("fetch", {"url": "u"}, "word " * 100_000)])[:-2])
    view = project(state, question, 2_000)
    assert tokens(view.messages) <= 2_000
    result = next(one for one in view.messages if one["role"] == "tool")
    assert f"[cut: 500000 characters, node {state.nodes[4].id}]" in result["content"]
    assert next(one for one in view.messages if one["role"] == "user")["content"] == question


def test_long_arguments_are_cut_as_valid_json():
    state = log(turn("write", "x", [("write_file", {"path": "a", "content": "z" * 50_000}, "ok")])[:-2])
    view = project(state, "write", 1_500)
    call = next(one for one in view.messages if one["tool_calls"])["tool_calls"][0]
    assert list(call["arguments"]) == ["cut"]
    assert "node cw_" in call["arguments"]["cut"]
    assert tokens(view.messages) <= 1_500


def test_what_must_be_shown_and_does_not_fit_is_refused():
    state = log([Append("goal", {"text": "q " * 5_000})])
    with pytest.raises(ViewTooLarge) as caught:
        project(state, "q", 1_000)
    assert isinstance(caught.value, Exhausted)
    assert caught.value.limit == "context_tokens"
    assert "1000" in str(caught.value)
    assert project(state, "q", 3_000)


def test_what_matches_goes_last():
    state = log()
    for index in range(30):
        text = "The vault code is 90125." if index == 2 else f"Small talk number {index}. " * 12
        apply(state, turn(text, "Noted.", []), NOW)
    ask(state, "vault code?")
    for budget in (250, 600, 2_000):
        assert "90125" in shown(project(state, "vault code?", budget))


def test_among_matches_the_best_stays_longest():
    state = log()
    best = remember(state, "a", "The otter food is herring. " + "x" * 380)
    good = remember(state, "b", "The otter likes water and stones and moss and reeds and mud. " + "y" * 380)
    ask(state, "otter food")
    small = next(
        view for budget in range(150, 800, 5) if good.id not in (view := project(state, "otter food", budget)).ids and best.id in view.ids
    )
    assert set(project(state, "otter food", 2_000).ids) - set(small.ids) == {good.id}


@given(st.data(), st.integers(60, 3_000))
@settings(max_examples=60, deadline=None)
def test_any_log_gives_a_view_within_budget_or_a_refusal(data, budget):
    state = AgentState()
    for _ in range(data.draw(st.integers(0, 15))):
        one = data.draw(appended(state))
        call = {"call_id": data.draw(st.sampled_from(["a", "b", ""])), "name": "n", "args": data.draw(any_value), "result": 1, "ok": True}
        payload = data.draw(st.just(call) | any_value | st.just({"text": "some words", "calls": [1]}))
        apply(state, [Append(one.kind, payload, one.parents, one.resource_key, one.advance)], NOW)
    try:
        view = project(state, "some words", budget)
    except ViewTooLarge:
        return
    assert tokens(view.messages) <= budget
    assert view.digest
    assert_well_paired(view)
    places = [state.sequence(name) for name in view.ids]
    assert places == sorted(set(places))
    json.dumps(view.messages)


# purity and cost


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_the_view_depends_on_log_query_and_budget_alone(data):
    grown, batches = AgentState(), []
    for _ in range(data.draw(st.integers(1, 12))):
        one = data.draw(appended(grown))
        batches.append(one)
        apply(grown, [one], NOW)
        project(grown, "earlier views must not matter", 5_000)
    fresh = AgentState()
    for one in batches:
        apply(fresh, [one], LATER)
    imported = AgentState.from_json(grown.to_json())
    query = data.draw(st.sampled_from(["a", "memory", "what is 2"]))
    assert project(grown, query, 5_000) == project(fresh, query, 5_000) == project(imported, query, 5_000)


def long_log(turns):
    state = log()
    for index in range(turns):
        rounds = [("search", {"q": f"subject {index}"}, f"finding {index} about subject {index % 97} " * 5)]
        apply(state, turn(f"Look up subject {index}.", f"Subject {index} done.", rounds, prefix=f"t{index}c"), NOW)
    ask(state, "What about subject 5?")
    return state


def test_a_view_does_not_cost_more_in_a_long_log():
    def seconds(state):
        project(state, "What about subject 5?", 4_000)
        best = float("inf")
        for _ in range(7):
            start = time.process_time()
            project(state, "What about subject 5?", 4_000)
            best = min(best, time.process_time() - start)
        return best

    short, long = seconds(long_log(60)), seconds(long_log(1_200))
    assert long < 5 * short, f"{short:.5f} s after 60 turns, {long:.5f} s after 1,200"
