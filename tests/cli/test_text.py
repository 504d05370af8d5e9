"""What a model or a tool says cannot do anything to a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.cli.views.clean_text import Cleaner, clean, command, exact, fields, line, short, shown

HOSTILE = st.text(
    st.sampled_from(list("\x1b[]0;31mK\\\x07\x9b\x90\x9c\x9d\r\n\t\b\x00ab é\u202e\u2066\u200b\ufeff\U000e0041\ud800\u2028")), max_size=60
)


@pytest.mark.parametrize(
    "text, seen",
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("a\rb\x08c\x00d\x7f", "abcd"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\u202etxt.exe\u202c", "txt.exe"),
        ("a\u200bb\ufeffc\U000e0041", "abc"),
        ("a\u2028b", "a\nb"),
        ("\ud800", "\ufffd"),
        ("é 中 \U0001f600", "é 中 \U0001f600"),
        ("\x1b[31", "[31"),
    ],
)
def test_escape_sequences_and_hidden_characters_are_taken_out(text, seen):
    assert clean(text) == seen


@given(HOSTILE)
@settings(max_examples=300)
def test_whatever_is_said_only_printable_text_comes_out(text):
    for character in clean(text) + "".join(fields(text)) + shown(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs", "Cf"), repr(character)


@given(HOSTILE, st.lists(st.integers(0, 60)))
@settings(max_examples=300)
def test_cutting_a_text_into_pieces_changes_nothing_of_what_is_seen(text, cuts):
    cleaner, places = Cleaner(), sorted({min(cut, len(text)) for cut in cuts})
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert "".join(cleaner.feed(piece) for piece in pieces) + cleaner.rest() == clean(text)


def test_a_sequence_that_never_ends_does_not_hold_the_text_back():
    cleaner = Cleaner()
    assert cleaner.feed("\x1b]" + "x" * 1000).endswith("xxx")


def test_hostile_text_takes_linear_time():
    for pattern in ("\x1b]", "\x90", "\x1b[0", "\x1b[" + "0" * 50, "\x9b;"):
        assert "\x1b" not in clean(pattern * 200_000)


def test_a_long_text_says_how_much_is_left_out():
    assert short("a" * 1500, 3) == "aaa ... (1,497 more)"
    assert short("abc", 3) == "abc"


def test_who_has_to_judge_arguments_sees_all_of_them():
    rows = fields({"to": "bob\nsubject: not a field", "body": "\x1b]hidden\x07\u202e!", "n\nm": {"deep": [1, "é"]}})
    assert rows == ["to: bob", "  subject: not a field", "body: \\u001b]hidden\\u0007\\u202e!", 'n m: {"deep": [1, "é"]}']
    assert fields({"text": "x\n" * 300})[-1] == "  ... (200 more lines)"
    assert fields("plain") == ["plain"]
    assert fields({}) == ["{}"]
    assert exact("a\x1bb\nc") == "a\\u001bb\nc"


def test_lines_for_programs_are_ascii_and_read_back():
    value = {"text": "é\u202e\x1b\ud800", "big": 2**80, "none": None}
    assert line(value).isascii()
    assert json.loads(line(value)) == value


def test_a_command_line_is_quoted_for_the_shell():
    assert command("answer", "run_1", "int_1", "edit", "--value", "{...}") == "causeline answer run_1 int_1 edit --value '{...}'"
