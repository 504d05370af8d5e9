"""Only `{{ name }}` is a template, and only known names are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeline.agent.system_prompt import render, template_findings
from causeline.errors import Misuse

VALUES = {
    "agent.name": "librarian",
    "session.id": "ses_1",
    "run.id": "run_1",
    "now": "2026-11-30T10:00:00.000Z",
    "date": "2026-11-30",
    "tools": "lookup: finds",
    "context": {"user": {"name": "Ada", "age": 36}, "note": "{{ date }}"},
    "metadata": {"tier": "gold"},
}


@pytest.mark.parametrize(
    "template, text",
    [
        ("Today is {{ date }}.", "Today is 2026-11-30."),
        ("{{date}}{{  now  }}", "2026-11-302026-11-30T10:00:00.000Z"),
        ("{{ agent.name }} {{ session.id }} {{ run.id }}", "librarian ses_1 run_1"),
        ("{{ context.user.name }} is {{ context.user.age }}", "Ada is 36"),
        ("{{ context.user }}", '{"age":36,"name":"Ada"}'),
        ("[{{ context.none.at.all }}{{ metadata.none }}]", "[]"),
        ("{{ metadata.tier }}", "gold"),
        ("{{ context.note }}", "{{ date }}"),
        ('{"a": {"b": 1}} {date} {{ 1 }} {{}} {{"x"}} { { date } }', '{"a": {"b": 1}} {date} {{ 1 }} {{}} {{"x"}} { { date } }'),
        ("", ""),
    ],
)
def test_rendering(template, text):
    assert template_findings(template) == []
    assert render(template, VALUES) == text


@pytest.mark.parametrize(
    "template, finding",
    [
        ("a\nb {{ dat }}", "line 2, column 3: unknown variable dat; did you mean date?"),
        ("{{ user }}", "line 1, column 1: unknown variable user; known are agent.name"),
        ("{{ date | upper }}", "line 1, column 1: unknown variable date | upper"),
        ("{{ context.__class__ }}{{ agent.__class__ }}", "line 1, column 24: unknown variable agent.__class__"),
        ("{{ context..a }}", "line 1, column 1: unknown variable context..a"),
        ("{{ run.id.x }}", "line 1, column 1: unknown variable run.id.x; did you mean run.id?"),
    ],
)
def test_unknown_names_are_found_with_their_place(template, finding):
    lines = template_findings(template)
    assert len(lines) == 1
    assert lines[0].startswith(finding)


def test_no_path_reaches_an_attribute():
    assert render("{{ context.__class__ }}", VALUES) == ""


def test_a_value_the_run_forgot_is_a_bug_of_ours():
    with pytest.raises(Misuse):
        render("{{ date }}", {})


@given(st.text())
def test_values_are_never_looked_into_again(text):
    assert render("<{{ context.t }}>", {"context": {"t": text}}) == f"<{text}>"
