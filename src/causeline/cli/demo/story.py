"""What the demonstration shows, part by part. Every `claim` is computed from what the part did."""

import json
import re
from collections.abc import Iterable
from typing import TypeVar

from causeline.assemble import Agent
from causeline.causal.view.drawing import causal_graph
from causeline.cli.commands.show import history
from causeline.cli.demo.stage import HERE, Stage
from causeline.cli.shared_arguments import store_words
from causeline.cli.views.clean_text import clean
from causeline.cli.views.follow import Words, follow
from causeline.cli.views.trace import trace
from causeline.errors import Missing
from causeline.runtime.handle import RunResult
from causeline.runtime.runtime import Runtime

T = TypeVar("T")
SURVEY = "Count the words of the glossary, and note down when you begin and when you end."


async def ask(stage: Stage, runtime: Runtime) -> RunResult:
    """A question whose answer only a tool knows."""
    stage.title("1. A question whose answer only a tool knows")
    result = await told(
        stage, runtime, stage.agent("asker", model=stage.model), "What does the word epoch mean?", "epoch-1", session="epoch"
    )
    links, runs = await history(runtime, "epoch")
    nodes = [node for link in links for node in link.nodes]
    stage.say("\nThe trace: each step, its checkpoint, and the causal nodes it added.", "title")
    stage.terminal.pieces(trace(links, {one.id: one for one in runs}))
    stage.say("\nThe same as a graph of causes, as Mermaid text:", "title")
    stage.say(causal_graph(nodes).rstrip())
    told_by_tool = " ".join(str(node.payload["result"]) for node in nodes if node.kind == "tool_result")
    stage.observe("\nThe answer has the words of the tool", shared(told_by_tool, str(result.answer)))
    return result


async def crash(stage: Stage, runtime: Runtime) -> str:
    """A process is killed in the middle of a run, and another one goes on; returns the head it came to."""
    stage.title("2. A run is killed in its middle, and resumed")
    words = ("run", SURVEY, "--agent", str(HERE / "surveyor.toml"), "--session", "survey", "--run-id", "survey-1")
    undisturbed = stage.folder / "undisturbed"
    other = await stage.start(*words, "--store", f"sqlite:///{undisturbed}.db", "--json", notebook=undisturbed)
    process = await stage.start(*words, "--store", stage.store, "--json", pause=60)
    await stage.events_until(process, "tool_call_start", "count_words")
    process.kill()
    stage.say(f"Process {process.pid} ran `note`, began `count_words`, and was killed with signal {-await process.wait()}.")
    stage.say(f"Its run is left as {(await runtime.run('survey-1')).status}. Any process may go on with it:\n")
    await stage.shown("resume", "survey-1", "--store", stage.store)
    head = (await runtime.run("survey-1")).head
    lines, _ = await other.communicate()
    notes = stage.notebook.read_text().splitlines()
    stage.say(f"\nThe notebook: {', '.join(notes)}")
    stage.claim("Each note was written once, though the run was driven twice", notes == undisturbed.read_text().splitlines())
    stage.claim("The head is that of the same run left in peace", head == json.loads(lines.splitlines()[-1])["head"])
    return str(head)


async def fork(stage: Stage, runtime: Runtime, head: str) -> None:
    """Another run from the middle of that one."""
    stage.title("3. A fork from the middle of that run")
    before = await runtime.export("survey", at=head)
    links, _ = await history(runtime, "survey")
    results = ((link.checkpoint.id, node.payload["tool"]) for link in links for node in link.nodes if node.kind == "tool_result")
    counted = found((checkpoint for checkpoint, tool in results if tool == "count_words"), "counting")
    stage.say("From the checkpoint where the words were counted and nothing else had happened, another run goes its own way:\n")
    await stage.shown("fork", "survey-1", "--at", counted, "--store", stage.store)
    branch, _ = await history(runtime, "survey")
    common = [link.checkpoint.id for link in links[: len(branch)] if link in branch]
    stage.say(f"\nThe notebook: {', '.join(stage.notebook.read_text().splitlines())} (a fork is a run of its own, and acts)")
    stage.claim("Its branch begins with the checkpoints of the first one", len(common) > 1 and common[-1] == counted)
    stage.claim("The first branch is still what it was, byte for byte", await runtime.export("survey", at=head) == before)


async def prove(stage: Stage, runtime: Runtime) -> None:
    """An export verifies; with one letter changed it does not."""
    stage.title("4. The history as a file that proves itself")
    data = await runtime.export("survey", all=True)
    head = str((await history(runtime, "survey"))[0][-1].checkpoint.id)
    good, bad = stage.folder / "survey.json", stage.folder / "forged.json"
    good.write_bytes(data)
    bad.write_bytes(data.replace(b"survey begins", b"survey begun!"))
    code, _ = await stage.shown("verify", str(good), "--head", head)
    stage.say("\nThe same file with one note changed:")
    refused, _ = await stage.shown("verify", str(bad))
    stage.claim("\nThe true file is accepted, the forged one refused", code == 0 and refused == 1)


async def remember(stage: Stage, runtime: Runtime, first: RunResult) -> None:
    """A later run, in another session and with no tools, is given what the first one found out."""
    stage.title("5. A later run recalls the first one")
    recall = {"runs": [first.run_id], "k": 1, "max_tokens": 200}
    rememberer = stage.agent("rememberer", model=stage.model, recall=recall)
    result = await told(stage, runtime, rememberer, "What did you find out about the word epoch?", "later-1", session="later")
    nodes = (await runtime.branch("later")).state.nodes
    recalled = found((node for node in nodes if node.kind == "resource" and node.payload["operation"] == "recall"), "recall")
    value = recalled.payload["value"]
    stage.say("\nWhat it was given, as data it need not believe:")
    stage.say("\n".join(f"  {row}" for row in clean(value["text"]).splitlines()), "quiet")
    stage.observe("\nThe answer has the words of the first one", shared(str(first.answer), str(result.answer)))
    known = {node.id for node in (await runtime.branch("epoch")).state.nodes}
    cited = {one["node"] for one in value["citations"]}
    stage.claim("Every piece cites a causal node of the first run", bool(cited) and cited <= known)
    answer = found((node for node in nodes if node.kind == "answer"), "answer")
    read = {node.id for node in await runtime.why(answer.id)}
    stage.claim("What was recalled is in the read set of the answer", recalled.id in read)


def look_next(stage: Stage) -> None:
    """Commands that go on from here."""
    stage.title("Where to look next")
    store = ("--store", stage.store)
    for words in (("sessions",), ("show", "epoch"), ("show", "survey", "--graph"), ("runs", "survey"), ("recall", "--query", "epoch")):
        stage.say(f"  {stage.line(*words, *store)}", "call")
    stage.say(f"  {stage.line('new', 'my-agent')}", "call")
    stage.say("README.md begins with an agent of your own.")


async def told(stage: Stage, runtime: Runtime, agent: Agent, prompt: str, name: str, *, session: str) -> RunResult:
    """Run an agent here, and print its events as they come."""
    stage.say(f"asked    {prompt}")
    try:
        run = await runtime.start(agent, prompt, session=session, run_id=name)
        return (await follow(runtime, run, Words(store_words(stage.store), steps=True))).result
    finally:
        await agent.aclose()


def found(several: Iterable[T], what: str) -> T:
    """The first of them. Raises Missing: the demonstration cannot go on without it."""
    for one in several:
        return one
    raise Missing(f"the run above did not come to the {what} this part is about")


def shared(wanted: str, text: str) -> float:
    """The share of the words of one text that another one has; 0 if there are none."""
    words = set(re.findall(r"\w+", wanted.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) / len(words) if words else 0.0
