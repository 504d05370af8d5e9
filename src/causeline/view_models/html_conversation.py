"""A conversation as markup: what was said, with calls, results and reasoning folded."""

from collections.abc import Iterable

from causeline.plain_text import shown
from causeline.view_models.entries import CallEntry, Entry
from causeline.view_models.html_parts import all_of, copied, folded, status, text_block, value_block
from causeline.view_models.live_tail import LiveTail, Saying
from causeline.view_models.markup import Markup, join, tag

_WHO = {
    "person": "Asked", "model": "Model", "answer": "Answer", "system": "System", "note": "Note", "fault": "Fault", "recalled": "Recalled",
}  # fmt: skip


def conversation_html(entries: Iterable[Entry], *, linked: bool = True) -> Markup:
    """Entries one below the other. With `linked` a page can be asked for causes, whole values and other runs."""
    return join([_entry(entry, linked=linked) for entry in entries])


def tail_html(tail: LiveTail) -> Markup:
    """What happens right now; nothing where nothing does."""
    rows: list[Markup] = [_saying(saying) for saying in tail.sayings.values()]
    for doing in tail.doings.values():
        progress = tag("div", shown(doing.progress, 400), cls="quiet") if doing.progress else None
        name = tag("code", doing.name, cls="name")
        rows.append(
            tag("div", tag("div", tag("i", cls="pulse"), name, " ", shown(doing.arguments, 160), cls="line"), progress, cls="live call")
        )
    rows += [tag("div", note, cls="live quiet") for note in tail.notes]
    if tail.node and not rows:
        rows.append(tag("div", tag("i", cls="pulse"), f"step {tail.step}: {tail.node.rpartition(':')[2]}", cls="live quiet"))
    return join(rows)


def _saying(saying: Saying) -> Markup:
    struck = " retracted" if saying.retracted else ""
    reasoning = folded("reasoning", text_block(saying.reasoning), cls="fold quiet") if saying.reasoning else None
    calls = [tag("div", tag("code", shown(call, 400)), cls="quiet") for call in saying.calls.values()]
    note = tag("div", "broke off; this does not count", cls="quiet") if saying.retracted else tag("i", cls="pulse")
    body = tag("del" if saying.retracted else "div", saying.text, cls="text")
    return tag("article", tag("div", "Model", cls="who"), tag("div", reasoning, body, calls, note, cls="said"), cls=f"entry model{struck}")


def _entry(entry: Entry, *, linked: bool) -> Markup:
    why = tag("button", "why", type="button", cls="link", data_go=f"why {entry.node}", title="What the model had read") if linked else None
    meta = tag("div", f"step {entry.place}", why, cls="meta")
    who = tag("div", "Answer" if entry.final else _WHO[entry.kind], cls="who")
    cls = f"entry {entry.kind}{' final' if entry.final else ''}"
    return tag("article", who, tag("div", _body(entry, linked=linked), cls="said"), meta, cls=cls, data_row=True, tabindex="-1")


def _body(entry: Entry, *, linked: bool) -> Iterable[Markup]:
    whole = f"node {entry.node}" if linked else None
    if entry.kind == "system":
        yield folded("System prompt", text_block(entry.text, whole=whole), cls="fold quiet")
    elif entry.kind == "recalled":
        yield folded(f"Put before the model as data, from {len(entry.citations)} places", text_block(entry.text, whole=whole), cls="fold")
        yield tag("div", [_citation(dict(row), linked=linked) for row in entry.citations if row.get("run")], cls="chips")
    else:
        if entry.reasoning:
            yield folded("reasoning", text_block(entry.reasoning), cls="fold quiet")
        if entry.text:
            yield text_block(entry.text, whole=whole)
        if entry.value is not None:
            yield value_block(entry.value, whole)
    for call in entry.calls:
        yield _call(call, linked=linked)


def _citation(row: dict[str, object], *, linked: bool) -> Markup:
    run = str(row["run"])
    node = f" {row['node']}" if row.get("node") else ""
    label = f"run {run}, step {row.get('step')}"
    return all_of(f"run {run}{node}", label) if linked else tag("span", label, cls="chip")


def _call(call: CallEntry, *, linked: bool) -> Markup:
    words = {"open": "started", "ok": "ok", "failed": "failed", "waiting": "waiting"}
    title = (tag("code", call.name, cls="name"), tag("span", shown(call.arguments, 120), cls="args"), status(words[call.state]))
    whole = f"node {call.node}" if linked else None
    parts = [tag("div", "arguments", cls="label"), value_block(call.arguments, whole)]
    if call.state in ("ok", "failed"):
        parts += [tag("div", "result" if call.state == "ok" else "error", cls="label"), value_block(call.result)]
    parts.append(tag("div", copied(call.id), copied(call.node), cls="quiet"))
    decided = [tag("div", f"A person: {text}", cls="decision") for text in call.decisions]
    return join([folded(title, *parts, cls=f"call c-{call.state}"), *decided])
