"""The digest of a run: what it was asked, thought, did and answered, in lines that say which step and node they are from.

Law: pure. A digest is bounded whatever the run did; it is cut into pages, which are found one by one, each with what the run was asked
above it. What a run recalled is in no digest, so nothing is recalled of a recall.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from causeline.causal import CausalNode
from causeline.causal.payload import as_text, field_text, fields, is_decision, is_forgotten
from causeline.memory.backend import Collection
from causeline.memory.items import Item, StoredItem
from causeline.memory.lexical import words
from causeline.models.messages import Message
from causeline.models.transcript import goal_content, result_text
from causeline.run.scope import SEARCH_HISTORY
from causeline.runtime.records import ACTIVE, Link, Run, RunPatch

LINE, PAGE, PAGES = 400, 4_000, 64
"""Characters of one line, of a page as it is told; pages of a run. Of a longer run the first and the last pages are kept."""
REMEMBER = "remember"
"""Its notes are told for themselves."""
_PLACE = 80
"""Characters that say where a line is from, about."""

ASKED, ANSWERED, ENDED = "asked:", "answered:", "ended:"


class Line(NamedTuple):
    """What one node says, in a word what it is and in its own words. The line of a run's end has neither step nor node."""

    said: str
    text: str
    step: int | None = None
    node: str | None = None


class RunDigest:
    """Collects what a run does, and tells it when the run has ended."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._steps: list[tuple[int, Sequence[CausalNode]]] = []

    def add(self, step: int, nodes: Sequence[CausalNode]) -> None:
        """The nodes of a committed step."""
        if nodes:
            self._steps.append((step, nodes))

    def take_over(self, links: Sequence[Link]) -> None:
        """What processes before this one have committed of the run."""
        self._steps = [(link.checkpoint.step, link.nodes) for link in links if link.checkpoint.run == self._run.id]

    def rows(self, end: RunPatch, at: str) -> list[tuple[Collection, StoredItem]]:
        """The pages as they are committed with the run's end, at this time."""
        lines = _first_and_last(self._steps)
        if not lines:
            return []
        if end.status != "succeeded":
            lines.append(Line(ENDED, f"{end.status} ({_reason(end)})"))
        return [((self._run.owner, "runs"), page) for page in pages(self._run, lines, at)]


def pages(run: Run, lines: Sequence[Line], at: str) -> Iterator[StoredItem]:
    """The lines of a run as items: of its session's namespace, under its id and the number of the page."""
    asked = next((line for line in lines if line.said == ASKED), None)
    cut = _cut(lines)
    for number, page in enumerate(cut if len(cut) <= PAGES else [*cut[: PAGES // 2], *cut[-PAGES // 2 :]]):
        above = [] if asked is None or asked in page else [asked]
        held = [*above, *page]
        value = {"run": run.id, "lines": [list(line) for line in held]}
        item = Item(namespace=(run.session,), key=f"{run.id}/{number:02d}", value=value, text="", created_at=at)
        yield StoredItem(item=item, words=words("\n".join([line.text for line in held])))


def digests_of(runs: Sequence[Run], links: Sequence[Link], at: str) -> list[StoredItem]:
    """The digests of whole runs, as an import brings them."""
    found: list[StoredItem] = []
    for run in runs:
        digest = RunDigest(run)
        digest.take_over(links)
        if run.status not in ACTIVE:
            end = RunPatch(status=run.status, stop_reason=run.stop_reason, error=run.error)
            found += [row for _, row in digest.rows(end, at)]
    return found


def _cut(lines: Sequence[Line]) -> list[list[Line]]:
    cut: list[list[Line]] = [[]]
    room = PAGE
    for line in lines:
        length = len(line.said) + len(line.text) + _PLACE
        if length > room and cut[-1]:
            cut.append([])
            room = PAGE
        cut[-1].append(line)
        room -= length
    return cut


def _reason(end: RunPatch) -> str:
    message = field_text(end.error, "message")
    reason = end.stop_reason or "no reason"
    return f"{reason}: {_short(message)}" if message else reason


def _first_and_last(steps: Sequence[tuple[int, Sequence[CausalNode]]]) -> list[Line]:
    """The lines of all steps; of a run that is too long for its pages those of its first and of its last steps, so that the end of a run
    costs the same however long it was."""
    first = _some_pages(iter(steps))
    last = _some_pages(reversed(steps[len(first) :]))
    return [line for lines in (*first, *reversed(last)) for line in lines]


def _some_pages(steps: Iterator[tuple[int, Sequence[CausalNode]]]) -> list[list[Line]]:
    """The lines of each step, for as many steps as fill more than half of the pages."""
    found: list[list[Line]] = []
    room = PAGE * (PAGES // 2 + 1)
    while room > 0 and (taken := next(steps, None)) is not None:
        step, nodes = taken
        found.append([line for node in nodes for line in lines_of(node, step)])
        room -= sum(len(line.text) for line in found[-1])
    return found


def lines_of(node: CausalNode, step: int) -> Iterator[Line]:
    """What a node says of the run, as lines of bounded length."""
    for said, text in _said(node.kind, node.payload):
        short = _short(text)
        if short:
            yield Line(said, short, step, node.id)


def _short(text: str) -> str:
    """A text on one line, cut where it is long."""
    flat = " ".join(text[: 4 * LINE].split())
    return flat if len(flat) <= LINE else f"{flat[:LINE]} ..."


def _said(kind: str, payload: Any) -> Iterator[tuple[str, str]]:
    match kind:
        case "goal":
            yield ASKED, Message("user", goal_content(payload)).text
        case "inference":
            yield from _thought(payload)
        case "tool_call" if payload["name"] != REMEMBER:
            yield f"called {payload['name']} with", result_text(payload["args"])
        case "tool_result" if payload["tool"] not in (REMEMBER, SEARCH_HISTORY):
            yield f"{payload['tool']} {'returned' if payload['ok'] else 'failed'}:", result_text(payload["result"])
        case "answer":
            yield ANSWERED, result_text(payload)
        case "semantic" if is_forgotten(kind, payload):
            yield "forgot", f"{payload['type']} {payload['key']}"
        case "semantic":
            yield f"noted {payload['type']} {payload['key']}:", result_text(payload["content"])
        case "protocol_error":
            yield f"fault {payload.get('code')}:", field_text(payload, "detail") or str(payload.get("code"))
        case "verification" if is_decision(kind, payload):
            yield (
                f"a person said {payload.get('decision')}:",
                as_text(payload.get("args") or payload.get("reason") or payload.get("call_id")),
            )
        case _:
            pass


def _thought(payload: Any) -> Iterator[tuple[str, str]]:
    """What a model thought aloud, and what it said beside its calls; what it said as an answer is a node of its own."""
    aloud = [field_text(part, key) for part in payload.get("reasoning", ()) for key in ("text", "thinking")]
    aloud += [payload["text"]] if any(call["name"] != REMEMBER for call in payload["calls"]) else []
    thought = " ".join(text for text in aloud if text)
    if thought:
        yield "thought:", thought


def told(run: str, line: Line) -> str:
    """A line as a reader is shown it."""
    place = f"{run} step {line.step} {line.node}" if line.node is not None else run
    return f"[{place}] {line.said} {line.text}"


def lines_in(value: Any) -> list[Line]:
    """The lines of a stored page."""
    return [Line(*line) for line in fields(value).get("lines", ())]
