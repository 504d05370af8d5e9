"""`ask_human`: a question to a person, asked by the model like any tool.

Law: nothing here waits or talks to anybody. The step that runs tools turns a call into an interrupt of kind
`question`, and the answer becomes the call's result.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from causeline.models.messages import Json
from causeline.tools.tool import Tool, ToolContext, ToolError, checked_tools, schema_tool

ASK_HUMAN = "ask_human"


async def _nobody(_arguments: Json, _context: ToolContext) -> None:
    raise ToolError("There is nobody to ask here; go on without an answer.")


ask_human = schema_tool(
    ASK_HUMAN,
    "Ask the person you work for a question and wait for the answer. Use it when only they can know or decide.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1, "description": "The question, complete in itself."},
            "choices": {"type": "array", "items": {"type": "string"}, "description": "The answers to choose from, if they are known."},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    _nobody,
    effects=False,
    human=True,
)


def with_human_key(tools: Iterable[Any], key: str, *, always: bool = False) -> list[Any]:
    """The tools, with `ask_human` under another name; with `always` also where it is not among them."""
    renamed = ask_human if key == ASK_HUMAN else replace(ask_human, name=key)
    given = [_renamed(tool, renamed) for tool in checked_tools(tools)]
    return [*given, renamed] if always and renamed not in given else given


def _renamed(tool: Any, renamed: Tool) -> Any:
    if isinstance(tool, list | tuple):
        return [_renamed(inner, renamed) for inner in cast("Iterable[Any]", tool)]
    return renamed if tool is ask_human else tool


def question_text(arguments: Json) -> str:
    """What the person is shown: the question, and the choices where there are any."""
    choices: list[str] = arguments.get("choices") or []
    return "\n".join([str(arguments["question"]), *(f"- {choice}" for choice in choices)])
