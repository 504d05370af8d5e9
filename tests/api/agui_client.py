"""What an AG-UI client makes of a stream, by the rules that the official one enforces."""

import copy


class Broken(AssertionError):
    """The client would have thrown."""


class Reader:
    """Reads events of one response, and keeps the messages as a client does. `messages` may hold what it knows from before."""

    def __init__(self, messages=()):
        self.messages = copy.deepcopy(list(messages))
        self.started = self.ended = False
        self.texts, self.thoughts, self.calls, self.steps = set(), set(), set(), []
        self.state, self.outcome, self.customs = None, None, []

    def read(self, events):
        for event in events:
            self.event(event if isinstance(event, dict) else event.model_dump(by_alias=True, mode="json"))
        return self

    def event(self, event):
        kind = event["type"]
        if not self.started and kind != "RUN_STARTED":
            raise Broken(f"first event is {kind}")
        if self.ended:
            raise Broken(f"{kind} after the end")
        getattr(self, f"_{kind.lower()}", lambda _event: None)(event)

    def _run_started(self, event):
        assert event["protocolVersion"] == "1.0"
        self.started = True

    def _run_finished(self, event):
        if self.texts or self.calls or self.steps or self.thoughts:
            raise Broken(f"still open: {self.texts} {self.calls} {self.steps} {self.thoughts}")
        self.ended, self.outcome = True, event["outcome"]

    def _run_error(self, event):
        self.ended, self.outcome = True, {"type": "error", "message": event["message"], "code": event.get("code")}

    def _step_started(self, event):
        self.steps.append(event["stepName"])

    def _step_finished(self, event):
        if event["stepName"] not in self.steps:
            raise Broken(f"step {event['stepName']} was not begun")
        self.steps.remove(event["stepName"])

    def _open(self, group, name, what):
        if name in group:
            raise Broken(f"{what} {name} is open already")
        group.add(name)

    def _close(self, group, name, what):
        if name not in group:
            raise Broken(f"{what} {name} was not begun")
        group.discard(name)

    def _own(self, name, role):
        found = next((message for message in self.messages if message["id"] == name), None)
        if found is None:
            found = {"id": name, "role": role}
            self.messages.append(found)
        return found

    def _text_message_start(self, event):
        self._open(self.texts, event["messageId"], "text")
        self._own(event["messageId"], "assistant").setdefault("content", "")

    def _text_message_content(self, event):
        if event["messageId"] not in self.texts:
            raise Broken("content of a text that was not begun")
        message = self._own(event["messageId"], "assistant")
        message["content"] = (message.get("content") or "") + event["delta"]

    def _text_message_end(self, event):
        self._close(self.texts, event["messageId"], "text")

    def _reasoning_message_start(self, event):
        self._open(self.thoughts, event["messageId"], "thought")

    def _reasoning_message_end(self, event):
        self._close(self.thoughts, event["messageId"], "thought")

    def _tool_call_start(self, event):
        self._open(self.calls, event["toolCallId"], "call")
        if not event.get("subagentRunId"):
            owner = self._own(event.get("parentMessageId") or event["toolCallId"], "assistant")
            call = {"id": event["toolCallId"], "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
            owner["toolCalls"] = [*(owner.get("toolCalls") or []), call]

    def _tool_call_args(self, event):
        if event["toolCallId"] not in self.calls:
            raise Broken("arguments of a call that was not begun")
        for message in self.messages:
            for call in message.get("toolCalls") or ():
                if call["id"] == event["toolCallId"]:
                    call["function"]["arguments"] += event["delta"]

    def _tool_call_end(self, event):
        self._close(self.calls, event["toolCallId"], "call")

    def _tool_call_result(self, event):
        if not event.get("subagentRunId"):
            self.messages.append({"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]})

    def _messages_snapshot(self, event):
        self.messages = copy.deepcopy(event["messages"])

    def _state_snapshot(self, event):
        self.state = event["snapshot"]

    def _custom(self, event):
        self.customs.append((event["name"], event["value"]))

    def said(self):
        """Messages in a form that can be compared."""
        return [
            (one["id"], one["role"], one.get("content") or "", [call["id"] for call in one.get("toolCalls") or ()]) for one in self.messages
        ]
