"""The message history, folded from the causal log one node at a time.

Law: adding a node costs the same however long the log is, and what a model is shown is always well paired:
each call of a reply is answered by exactly one tool message before anything else is said. A call that was
never answered gets a stand-in in `view` only; `messages` stays what the log says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from causeline.causal import Append, CausalNode, canonical
from causeline.causal.payload import as_run, is_decision, with_decisions
from causeline.models.messages import Content, Json, Message, ToolCall

NOT_EXECUTED = "Not executed: the conversation went on before this call had a result."
_FOLDED = frozenset({"goal", "inference", "tool_call", "tool_result", "protocol_error", "verification", "answer", "system"})
SAID_AGAIN = frozenset({"invalid_output", "unexpected_call", "unparseable_action"})
"""Faults a model is told of, because it is asked again."""
Repeats = tuple[tuple[Any, ...], int]
"""The latest call with its result, and how often in a row they came."""
Shorten = Callable[[str, str, str], str]
"""(tool name, text, node id) -> the text a model is shown."""


class Transcript:
    """History so far.

    `messages`  what was said, oldest first, for people.
    `view`      the same for a model: well paired, long results cut, unanswered calls filled in.
    `open`      call id -> (tool_call node id, name, arguments) of the latest reply's calls without a result, in call order.
    `round`     model replies in the current user turn; `tool_rounds` those that asked for tools.
    `turn`      goals so far. `goal` is the node id of the latest one.
    `call_ids`  every call id used so far.
    `answered`  whether the latest thing in the turn is an answer; `answer` is the latest one.
    `system`    the latest system prompt, None if there was none; `system_id` is its node.
    `question`  the text of the latest goal.
    `order`     call id -> its place among the latest reply's calls.
    `faults`    code -> how many replies in this turn could not be used for it, since the last one that asked for tools.
    """

    __slots__ = (
        "_asked_at",
        "_decided",
        "_shorten",
        "_told_of_fault",
        "answer",
        "answered",
        "call_ids",
        "faults",
        "goal",
        "messages",
        "open",
        "order",
        "question",
        "repeats",
        "round",
        "system",
        "system_id",
        "tool_rounds",
        "turn",
        "view",
    )

    def __init__(self, shorten: Shorten | None = None) -> None:
        self._shorten = shorten
        self._asked_at = 0
        self._told_of_fault = False
        self._decided: dict[str, list[Any]] = {}
        self.messages: list[Message] = []
        self.view: list[Message] = []
        self.open: dict[str, tuple[Any, str, Any]] = {}
        self.order: dict[str, int] = {}
        self.call_ids: set[str] = set()
        self.repeats: Repeats = ((), 0)
        self.round = 0
        self.tool_rounds = 0
        self.turn = 0
        self.answered = False
        self.answer: Any = None
        self.faults: dict[str, int] = {}
        self.goal: str | None = None
        self.question = ""
        self.system: str | None = None
        self.system_id: str | None = None

    def add(self, node: CausalNode, message_id: str = "") -> Message | None:
        """Fold one node in; return the message it became, if any."""
        return self.fold(node.kind, node.payload, node.id, message_id) if node.kind in _FOLDED else None

    def fold(self, kind: str, payload: Any, node_id: str, message_id: str = "") -> Message | None:
        """`add` for a node whose payload is at hand."""
        match kind:
            case "goal":
                return self._goal(payload, node_id, message_id)
            case "inference":
                return self._inference(payload, message_id)
            case "tool_call":
                self._tool_call(payload, node_id)
            case "tool_result":
                return self._tool_result(payload, node_id, message_id)
            case "protocol_error":
                self._protocol_error(payload)
            case "verification":
                self._decision(payload)
            case "answer":
                self.answered, self.answer = True, payload
                if self._told_of_fault and self.view and self.view[-1].role == "user":
                    self.view.pop()  # the reply is the answer all the same
                self._told_of_fault = False
            case "system":
                self.system, self.system_id = str(payload), node_id
            case _:
                pass
        return None

    def last_role(self) -> str | None:
        """Role of the last message said."""
        return self.messages[-1].role if self.messages else None

    def stand_ins(self) -> list[Message]:
        """Tool messages for the open calls, for a model that is asked before they have results."""
        return [Message("tool", NOT_EXECUTED, tool_call_id=call_id, is_error=True) for call_id in self.open]

    def _close_open(self) -> None:
        if self.open:
            self.view.extend(self.stand_ins())
            self.open.clear()

    def _say(self, message: Message) -> Message:
        self.messages.append(message)
        self.view.append(message)
        return message

    def hear(self, message: Message, asked: Mapping[str, Any] | None = None) -> None:
        """Fold in a message that is not read from the log. `asked` has the log's tool_call nodes by call id, where there are any."""
        match message.role:
            case "user":
                self._user(message, "")
            case "assistant":
                self._assistant(message)
                self.open = {call_id: ((asked or {}).get(call_id, ""), name, args) for call_id, (_, name, args) in self.open.items()}
            case "tool":
                name, arguments = self.open.get(message.tool_call_id or "", ("", "", None))[1:]
                for decision in message.decisions:
                    self._decision({"method": "decision", "call_id": message.tool_call_id, **decision})
                self._result(message, name, "")
                self.repeats = repeated(self.repeats, name, arguments, message.text)
            case _:
                self._close_open()
                self._say(message)

    def take(self, append: Append) -> None:
        """Fold in what is about to be added to the log."""
        self.fold(append.kind, append.payload, "")

    def _goal(self, payload: Any, node_id: str, message_id: str) -> Message:
        return self._user(Message("user", goal_content(payload), id=message_id), node_id)

    def _user(self, message: Message, node_id: str) -> Message:
        self._close_open()
        self.turn += 1
        self.round = self.tool_rounds = 0
        self.repeats = ((), 0)
        self.faults.clear()
        self.answered = False
        self.goal = node_id
        self.question = message.text
        return self._say(message)

    def _inference(self, payload: Any, message_id: str) -> Message | None:
        calls = tuple([ToolCall(call["id"], call["name"], call["arguments"]) for call in payload["calls"]])
        return self._assistant(Message("assistant", payload["text"], calls, id=message_id, reasoning=tuple(payload.get("reasoning", ()))))

    def _assistant(self, message: Message) -> Message | None:
        self.round += 1
        self._told_of_fault = False
        self.answered = False
        self._close_open()
        if message.tool_calls:
            self.tool_rounds += 1
            self.faults.clear()
            self.open = {call.id: ("", call.name, call.arguments) for call in message.tool_calls}
            self._decided.clear()
            self._asked_at = len(self.view)
            self.order = {call_id: place for place, call_id in enumerate(self.open)}
            self.call_ids.update(self.open)
        if not message.tool_calls and not message.text.strip():
            return None  # nothing was said; providers refuse such a message in a history
        return self._say(message)

    def _tool_call(self, payload: Any, node_id: str) -> None:
        call_id = payload["call_id"]
        if call_id in self.open:
            self.open[call_id] = (node_id, payload["name"], payload["args"])

    def _decision(self, payload: Any) -> None:
        """What a person decided on an open call. A model is shown the call as it ran."""
        if not is_decision("verification", payload) or payload["call_id"] not in self.open:
            return
        call_id = payload["call_id"]
        self._decided.setdefault(call_id, []).append({key: value for key, value in payload.items() if key not in ("method", "call_id")})
        if payload["decision"] == "edit":
            asking = self.view[self._asked_at]
            arguments = as_run(None, self._decided[call_id])
            calls = tuple(replace(call, arguments=arguments) if call.id == call_id else call for call in asking.tool_calls)
            self.view[self._asked_at] = replace(asking, tool_calls=calls)

    def _tool_result(self, payload: Any, node_id: str, message_id: str) -> Message:
        call_id, content = payload["call_id"], result_content(payload["result"])
        opened = self.open.get(call_id)
        decided = tuple(self._decided.pop(call_id, ()))
        message = Message("tool", content, tool_call_id=call_id, is_error=not payload["ok"], id=message_id, decisions=decided)
        self._result(message, payload["tool"], node_id)
        if opened is not None:
            self.repeats = repeated(self.repeats, payload["tool"], opened[2], payload["result"])
        return message

    def _result(self, message: Message, tool: str, node_id: str) -> None:
        """A result is said; a model is shown it, cut where it is long, if its call is open."""
        opened = self.open.pop(message.tool_call_id or "", None)
        self._place(self.messages, message)
        if opened is None:
            return
        shown = self._shortened(tool, message.content, node_id or message.tool_call_id or "")
        if message.decisions:
            shown = _decided_on(shown, message.decisions)
        if shown is not message.content:
            message = Message("tool", shown, tool_call_id=message.tool_call_id, is_error=message.is_error)
        self._place(self.view, message)

    def _shortened(self, tool: str, content: Content, node_id: str) -> Content:
        """The content with its texts cut as the tool says; the same one where nothing is cut."""
        if self._shorten is None:
            return content
        if isinstance(content, str):
            return self._shorten(tool, content, node_id)
        cut = tuple({**part, "text": self._shorten(tool, part["text"], node_id)} if part["type"] == "text" else part for part in content)
        return content if cut == content else cut

    def _place(self, messages: list[Message], result: Message) -> None:
        """Results stand in the order of their calls, in whatever order the client brings them."""
        own, place = self.order.get(result.tool_call_id or "", len(self.order)), len(messages)
        while place and messages[place - 1].role == "tool" and self.order.get(messages[place - 1].tool_call_id or "", -1) > own:
            place -= 1
        messages.insert(place, result)

    def _protocol_error(self, payload: Any) -> None:
        note, code = payload.get("detail", ""), str(payload.get("code"))
        self.faults[code] = self.faults.get(code, 0) + 1
        if code == "repeated_call" and self.view and self.view[-1].role == "tool":
            last = self.view[-1]
            said = last.content
            noted: Content = f"{said}\n\n[{note}]" if isinstance(said, str) else (*said, {"type": "text", "text": f"[{note}]"})
            self.view[-1] = Message("tool", noted, tool_call_id=last.tool_call_id, is_error=last.is_error)
        elif code in SAID_AGAIN:
            self.view.append(Message("user", note))
            self._told_of_fault = True


def repeated(before: Repeats, tool: str, arguments: Any, result: Any) -> Repeats:
    """A call with its result, and how often in a row it has been seen."""
    seen = (tool, arguments, result)
    return seen, before[1] + 1 if before[0] == seen else 1


def goal_content(payload: Any) -> Content:
    """The content of a goal: its text, or its parts."""
    if isinstance(payload, str):
        return payload
    return payload["text"] if "text" in payload else tuple(payload["parts"])


def result_content(result: Any, text: str | None = None) -> Content:
    """The content of a tool's result: its parts, where it is `{"parts": [{type, ...}, ...]}` and nothing else, or its text, which may be
    given where it has been written."""
    if isinstance(result, str):
        return result
    record = cast("Json", result) if type(result) is dict else {}
    parts: Any = record["parts"] if record.keys() == {"parts"} else None
    if type(parts) is list and parts and all(_is_part(part) for part in cast("list[Any]", parts)):
        return tuple(cast("list[Json]", parts))
    return result_text(result) if text is None else text


def _is_part(part: Any) -> bool:
    fields: Json = cast("Json", part) if type(part) is dict else {}
    return type(fields.get("type")) is str and (fields["type"] != "text" or type(fields.get("text")) is str)


def _decided_on(content: Content, decided: Sequence[Any]) -> Content:
    """The content, and what a person decided on the call."""
    if isinstance(content, str):
        return with_decisions(content, decided) if decided else content
    note = with_decisions("", decided).strip()
    return (*content, {"type": "text", "text": note}) if note else content


def result_text(result: Any) -> str:
    """A tool result as the model reads it: text as it is, anything else as JSON."""
    return result if isinstance(result, str) else canonical(result).decode()


def result_words(result: Any, text: str | None = None) -> str:
    """A tool result for people to read: of parts that are no text, their types. `text` is the result's, where it has been written."""
    content = result_content(result, text)
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in content)
