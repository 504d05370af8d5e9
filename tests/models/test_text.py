from hypothesis import given
from hypothesis import strategies as st

from causeline.models.unicode_text import Mender, is_clean, mend, mend_value

any_text = st.text(st.sampled_from("ab\0é😀\ud83d\ude00"), max_size=12)


@given(any_text)
def test_a_mended_text_has_a_utf8_form_and_is_stable(text):
    mended = mend(text)
    assert mended.encode().decode() == mended
    assert mend(mended) == mended
    assert (mended == text) == is_clean(text)


@given(any_text, st.data())
def test_mending_in_pieces_is_mending_the_whole(text, data):
    mender = Mender()
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert "".join([*map(mender.feed, pieces), mender.end()]) == mend(text)


def test_clean_text_is_passed_on_at_once_and_as_it_is():
    text = "grün\0"
    assert mend(text) is text
    assert Mender().feed(text) is text


def test_every_text_in_a_value_is_mended():
    assert mend_value({"\ud83d": ["\udc00", 1, None, {"k": ("x",)}]}) == {"\ufffd": ["\ufffd", 1, None, {"k": ["x"]}]}
