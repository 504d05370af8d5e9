"""A cut is visible and says where the rest is."""

from hypothesis import given
from hypothesis import strategies as st

from causeline.tools.trim import bound, shorten


def test_short_text_is_the_same_object():
    text = "abc"
    assert shorten(text, 3, "cw_1") is text


def test_a_long_text_keeps_its_beginning_and_names_the_node():
    cut = shorten("x" * 1000, 100, "cw_0123")
    assert cut == "x" * 32 + "\n[cut: the result has 1000 characters; node cw_0123 holds all of it]"
    assert len(cut) == 100


@given(st.text(), st.integers(1, 200))
def test_shorten_never_gives_more_than_asked_but_for_the_marker(text, limit):
    cut = shorten(text, limit, "cw_1")
    assert cut == text if len(text) <= limit else "node cw_1 holds all of it" in cut
    assert len(cut) <= max(limit, 80)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=30, max_size=300), st.integers(100, 400))
def test_bound_counts_bytes(text, limit):
    kept = bound(text, limit)
    if len(text.encode()) <= limit:
        assert kept is None
    else:
        assert len(kept.encode()) <= limit
        assert text.startswith(kept.partition("\n[cut: the result had ")[0][:10])
