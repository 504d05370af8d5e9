"""What a caller hands in with a run: messages, context, the client's tools, decisions.

Law: everything is checked before anything is written, and a value of the wrong shape is refused in the caller's words.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.causal import InvalidValue, canonical
from causeline.errors import Invalid
from causeline.models.messages import Message
from causeline.run.decisions import WrongDecision
from causeline.tools.tool import InvalidTool
from causeline.tools.toolbox import client_tools

Prompt = str | Sequence[Message | Mapping[str, Any]] | None


def input_messages(prompt: Prompt) -> Sequence[Message]:
    """A caller's input as messages of role user or tool. Raises Invalid for any other role."""
    given: object = prompt
    if given is None:
        return ()
    if isinstance(given, str):
        if not given.strip():
            raise Invalid("the prompt is empty; say something, or leave it out to start a run without a message", findings=["prompt"])
        given = [Message("user", given)]
    if not _is_list(given):
        raise Invalid(f"a prompt is text or a list of messages, not {type(given).__name__}", findings=["prompt"])
    messages = [one if isinstance(one, Message) else Message.from_json(one) for one in cast("Sequence[object]", given)]
    for index, message in enumerate(messages):
        if message.role == "user" and isinstance(message.content, str) and not message.content.strip():
            raise Invalid(f"messages[{index}]: the message is empty; say something", findings=[f"messages[{index}].content"])
        if message.role not in ("user", "tool"):
            raise Invalid(
                f"messages[{index}]: role {message.role} is not an input; send user messages, or tool results of your own tools",
                findings=[f"messages[{index}].role"],
            )
    check_json("messages", [one.to_json() for one in messages])
    return messages


def context_object(given: object) -> dict[str, Any] | None:
    """A run's context object. Raises Invalid unless it is an object of JSON values."""
    return None if given is None else json_object("context", given) or None


def json_object(what: str, given: object) -> dict[str, Any]:
    """An object of JSON values, as it may be stored. Raises Invalid with the place of what is none."""
    if not isinstance(given, Mapping):
        raise Invalid(f"{what}: expected an object, got {type(given).__name__}", findings=[what])
    values = dict(cast("Mapping[str, Any]", given))
    check_json(what, values)
    return values


def tool_definitions(given: object) -> list[dict[str, Any]]:
    """The client's tools, each `{name, description?, parameters?}`. Raises InvalidTool with every fault."""
    if not _is_list(given):
        raise InvalidTool(
            f"tools: expected a list of definitions {{name, description, parameters}}, got {type(given).__name__}", findings=["tools"]
        )
    definitions = list(cast("Sequence[Mapping[str, Any]]", given))
    client_tools(definitions)
    check_json("tools", [dict(one) for one in definitions])
    return [dict(one) for one in definitions]


def decisions_by_interrupt(given: object) -> dict[str, dict[str, Any]]:
    """Decisions by the id of the interrupt. Raises Invalid for none at all, WrongDecision for what is no decision."""
    if not isinstance(given, Mapping) or not given:
        raise Invalid("no decisions given; name at least one open interrupt: {interrupt id: causeline.approve()}")
    decisions: dict[str, dict[str, Any]] = {}
    for name, decision in cast("Mapping[str, object]", given).items():
        if isinstance(decision, Mapping):
            decisions[name] = dict(cast("Mapping[str, Any]", decision))
        elif isinstance(decision, str | int | float) and not isinstance(decision, bool):
            decisions[name] = {"decision": "answer", "value": decision}  # the plain value that a question asks for
        else:
            message = f"{name}: a decision is one such as causeline.approve(), or {{decision, value?, reason?}}, not {decision!r}"
            raise WrongDecision(message)
    return decisions


def check_json(what: str, value: Any) -> None:
    """Raises Invalid with the place of what could not be stored, such as a lone surrogate or a number that is none."""
    try:
        canonical(value)
    except InvalidValue as error:
        place = f"{what}{error.path.removeprefix('$')}"
        raise Invalid(f"{place}: {error.reason}", findings=[f"{place}: {error.reason}"]) from error


def _is_list(given: object) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)
