"""A model that says what it was told to say: for tests, documentation, demonstrations and benchmarks.

Law: the reply is a function of the request alone. The item is chosen by `Request.rounds()`, never by a
counter, so the same conversation gets the same reply in another process after a crash. Without a `delay`
nothing is awaited.

Items: `{text?, calls?: [{id?, name, arguments}], finish_reason?, reasoning?, delay?, pace?, status?, headers?,
body?, cut_after?, times?, usage?}`. `arguments` is an object or raw text. `delay` and `pace` are seconds before the
reply and between its pieces. `status` fails like an HTTP answer with that status, `cut_after` breaks off after so
many deltas, a `finish_reason` such as `error` fails where the reply would end; all do so while
`Request.attempt < times`, and always when there is no `times`. After the last item the model says "done".
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from causeline.errors import Invalid
from causeline.models.failures import ModelError, StreamCut, failed_finish, failure, seconds_to_wait
from causeline.models.model import CallDelta, Delta, Finish, ReasoningDelta, Request, Served, TextDelta, Usage

_WORDS = re.compile(r"\S+\s*|\s+")
_PIECE = 7
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "text": (str, type(None)), "reasoning": str, "calls": list, "finish_reason": str, "delay": (int, float), "pace": (int, float),
    "status": int, "headers": dict, "body": dict, "cut_after": int, "times": int, "usage": dict,
}  # fmt: skip
_USAGE = Usage(input_tokens=8, output_tokens=8)


class InvalidScript(Invalid):
    """A script is not a list of items. `findings` has one line for each fault."""

    code = "invalid_script"


@dataclass(frozen=True, slots=True)
class _Item:
    deltas: tuple[Delta, ...]
    delay: float = 0.0
    pace: float = 0.0
    times: int | None = None
    cut_after: int | None = None
    status: int | None = None
    message: str = ""
    retry_after: float | None = None

    def error(self, name: str) -> ModelError:
        if self.status is None:
            return StreamCut(f"Scripted model {name} broke off after {self.cut_after} deltas, as its item says.", model=name)
        return failure(self.status, self.message, retry_after=self.retry_after, model=name)


class ScriptedModel:
    """Plays `items`, one for each round of a user turn. Raises InvalidScript with every fault of the items at once."""

    def __init__(self, items: Iterable[Mapping[str, Any]], *, name: str = "scripted") -> None:
        if isinstance(items, str | Mapping) or not isinstance(items, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidScript(f"The script of model {name} is a list of replies, not {items!r:.80}.", findings=["items"])
        script = list(items)
        findings = [f"items[{index}]{fault}" for index, item in enumerate(script) for fault in _faults(item)]
        if findings:
            raise InvalidScript(f"The script of model {name} is wrong: {'; '.join(findings)}.", findings=findings)
        compiled = tuple(_compile(item, name) for item in script)
        done = _compile({"text": "done"}, name)

        def choose(request: Request) -> _Item:
            position = request.rounds()
            return compiled[position] if position < len(compiled) else done

        self.name = name
        self._choose: Callable[[Request], _Item] = choose

    @classmethod
    def named(cls, spec: str) -> "ScriptedModel":
        """A model that needs no script: `loop-N` calls the first tool N times with `{"i": k}`, `parallel-K` calls it
        K times in one reply, both then say "done N"; `echo` repeats the last user message."""
        kind, _, count = spec.partition("-")
        choices: dict[str, Callable[[Request, int, str], _Item]] = {"loop": _loop, "parallel": _parallel}
        model = cls((), name=f"scripted:{spec}")
        if spec == "echo":
            model._choose = lambda request: _text(_last_user(request), model.name)
        elif kind in choices and count.isdigit():
            number, choose = int(count), choices[kind]
            model._choose = lambda request: choose(request, number, model.name)
        else:
            raise InvalidScript(f"There is no scripted model {spec!r}; write loop-N, parallel-K, echo, or the path of a .json script.")
        return model

    async def aclose(self) -> None:
        """Nothing is held open."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        item = self._choose(request)
        if item.delay:
            await asyncio.sleep(item.delay)
        failing = item.times is None or request.attempt < item.times
        if failing and item.status is not None:
            raise item.error(self.name)
        deltas = item.deltas if item.cut_after is None or not failing else item.deltas[: item.cut_after]
        for delta in deltas:
            if failing and type(delta) is Finish and (failed := failed_finish(delta.reason, self.name)) is not None:
                raise failed
            yield delta
            if item.pace:
                await asyncio.sleep(item.pace)
        if deltas is not item.deltas:
            raise item.error(self.name)


def _compile(item: Mapping[str, Any], name: str) -> _Item:
    calls = tuple((call.get("id", ""), call["name"], call["arguments"]) for call in item.get("calls", ()))
    usage = Usage(**item["usage"]) if "usage" in item else _USAGE
    headers = {str(key).lower(): str(value) for key, value in item.get("headers", {}).items()}
    error: Any = item.get("body", {}).get("error", {})
    return _Item(
        deltas=_deltas(
            item.get("text") or "", calls, name, reasoning=item.get("reasoning", ""), finish=item.get("finish_reason", ""), usage=usage
        ),
        delay=item.get("delay", 0.0),
        pace=item.get("pace", 0.0),
        times=item.get("times"),
        cut_after=item.get("cut_after"),
        status=item.get("status"),
        message=cast(dict[str, str], error).get("message", "scripted") if isinstance(error, dict) else str(error),
        retry_after=seconds_to_wait(headers.get("retry-after"), now=0.0),
    )


def _deltas(
    text: str, calls: Sequence[tuple[str, str, Any]], name: str, *, reasoning: str = "", finish: str = "", usage: Usage = _USAGE
) -> tuple[Delta, ...]:
    deltas: list[Delta] = [Served(name)]
    deltas += [ReasoningDelta(piece) for piece in _WORDS.findall(reasoning)]
    deltas += [TextDelta(piece) for piece in _WORDS.findall(text)]
    for index, (call_id, tool, arguments) in enumerate(calls):
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        deltas.append(CallDelta(index, call_id, tool))
        deltas += [CallDelta(index, arguments=raw[start : start + _PIECE]) for start in range(0, len(raw), _PIECE)]
    deltas += [usage, Finish(finish or ("tool_calls" if calls else "stop"))]
    return tuple(deltas)


def _text(text: str, name: str) -> _Item:
    return _Item(_deltas(text, (), name))


def _may_call(request: Request) -> bool:
    return bool(request.tools) and request.tool_choice == "auto"


def _loop(request: Request, count: int, name: str) -> _Item:
    position = request.rounds()
    if position >= count or not _may_call(request):
        return _text(f"done {min(position, count)}", name)
    # The id grows with the conversation, so it is the same after a restart and not used twice in a session.
    return _Item(_deltas("", ((f"call_{len(request.messages)}_{position}", request.tools[0].name, {"i": position}),), name))


def _parallel(request: Request, count: int, name: str) -> _Item:
    if request.rounds() or not _may_call(request):
        return _text(f"done {count if request.rounds() else 0}", name)
    tool = request.tools[0].name
    return _Item(_deltas("", [(f"call_{len(request.messages)}_{index}", tool, {"i": index}) for index in range(count)], name))


def _last_user(request: Request) -> str:
    return next((message.text for message in reversed(request.messages) if message.role == "user"), "")


def _faults(item: object) -> list[str]:
    if not isinstance(item, Mapping):
        return [": expected an object"]
    record = cast(Mapping[str, Any], item)
    faults = [f".{key}: unknown field; known are {', '.join(_FIELDS)}" for key in record if key not in _FIELDS]
    faults += [f".{key}: has the wrong type" for key, kind in _FIELDS.items() if key in record and not isinstance(record[key], kind)]
    if not faults:
        calls = [cast(dict[str, Any], call) if isinstance(call, dict) else {} for call in record.get("calls", ())]
        for index, call in enumerate(calls):
            right = isinstance(call.get("name"), str) and isinstance(call.get("arguments"), dict | str)
            if not right or not isinstance(call.get("id", ""), str) or call.keys() - {"id", "name", "arguments"}:
                faults.append(f".calls[{index}]: expected {{id?, name, arguments}}")
        unknown = set(record.get("usage", {})) - {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cost"}
        faults += [f".usage.{key}: unknown field" for key in sorted(unknown)]
    return faults
