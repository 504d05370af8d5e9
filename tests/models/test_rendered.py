import gc

from causeline.models.messages import Message
from causeline.models.rendered_messages import Rendered


def test_a_message_is_rendered_once_in_its_life():
    seen: list[str] = []

    def render(message: Message) -> str:
        seen.append(message.text)
        return message.text.upper()

    rendered, history = Rendered(render), [Message("user", "a"), Message("user", "b")]
    assert rendered(history) == ["A", "B"]
    history.append(Message("user", "c"))
    assert rendered(history) == ["A", "B", "C"]
    assert seen == ["a", "b", "c"]


def test_equal_messages_are_still_two():
    seen: list[Message] = []
    Rendered(seen.append)([Message("user", "same"), Message("user", "same")])
    assert len(seen) == 2


def test_a_rendering_goes_away_with_its_message_and_is_never_found_for_another():
    rendered = Rendered(lambda message: message.text)
    for round in range(300):
        assert rendered([Message("user", f"{round}")]) == [f"{round}"]
    gc.collect()
    assert len(rendered) == 0
