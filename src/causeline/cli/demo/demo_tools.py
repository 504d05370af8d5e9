"""The tools of the demonstration, over a small glossary of causeline's own words."""

import json
import os
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import causeline

NOTES = "CAUSELINE_DEMO_NOTES"
"""Names the file that `note` writes to."""
PAUSE = "CAUSELINE_DEMO_PAUSE"
"""How many seconds `count_words` takes; long enough to be killed in it."""


def glossary() -> Mapping[str, str]:
    """The words and what they mean."""
    return json.loads(resources.files("causeline.cli.demo").joinpath("glossary.json").read_text("utf-8"))


@causeline.tool(effects=False)
def lookup(term: str) -> str:
    """Look up what a word means in causeline's glossary."""
    words = glossary()
    found = words.get(term.strip().lower())
    return found if found is not None else f"There is no such word. The words are: {', '.join(words)}."


@causeline.tool
def note(text: str) -> str:
    """Write a line into the notebook."""
    with Path(os.environ[NOTES]).open("a", encoding="utf-8") as notebook:
        notebook.write(f"{text}\n")
    return "written"


@causeline.tool(effects=False)
def count_words() -> int:
    """Count the words of the glossary, slowly."""
    time.sleep(float(os.environ.get(PAUSE, "0")))
    return len(glossary())
