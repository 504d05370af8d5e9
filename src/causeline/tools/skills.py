"""Skills: instructions kept in text files, added to the system prompt, that may narrow the tools.

Law: a skill can take tools away, never add any. What a file says is either understood or refused: a misspelt
`disallowed-tools` must not pass for a skill without one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from causeline.errors import Invalid

MAX_BYTES = 1_000_000
_KEYS = ("name", "description", "allowed-tools", "disallowed-tools")
_IGNORED = ("license", "compatibility", "metadata", "version")
_FENCE = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:[ \t]*(.*)")


class InvalidSkill(Invalid):
    """A skill file is missing or not understood. `findings` has one line for each fault, with file and line."""

    code = "invalid_skill"


@dataclass(frozen=True, slots=True)
class Skill:
    """`allowed_tools` None allows every tool, an empty tuple none. Names may hold * and ?."""

    name: str
    description: str
    text: str
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()


def skill_text(skills: Iterable[Skill]) -> str:
    """The skills as a part of a system prompt, "" if there are none."""
    return "\n\n".join(f"### Skill: {skill.name} [system] — {skill.description}\n\n{skill.text.strip()}" for skill in skills)


def load_skills(skills: Iterable[Skill | str | Path], directory: Path | None, base: Path | None = None) -> tuple[Skill, ...]:
    """The skills named: a Skill, a path, or a name in `directory` (`NAME.md`, `NAME/SKILL.md`, `NAME/NAME.md`).

    Relative paths start at `base` (default: the working directory). Raises InvalidSkill with every fault.
    """
    found: list[Skill] = []
    lines: list[str] = []
    for each in skills:
        if isinstance(each, Skill):
            found.append(each)
            continue
        try:
            found.append(read_skill(_find(each, directory, base or Path())))
        except InvalidSkill as error:
            lines.extend(str(line) for line in error.findings)
    names = [skill.name for skill in found]
    lines.extend(f"two skills are named {name}" for name in dict.fromkeys(names) if names.count(name) > 1)
    if lines:
        raise InvalidSkill(f"Skills: {'; '.join(lines)}", findings=lines)
    return tuple(found)


def read_skill(path: Path) -> Skill:
    """The skill in a file. Front matter between two `---` lines gives `name` (default: the file's), `description`, and the two lists.

    A list is `[a, b]`, `a, b`, words with spaces between, or lines `- a`. Raises InvalidSkill with every fault.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _refused(f"{path}: larger than {MAX_BYTES} bytes")
        whole = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"{path}: cannot be read: {error}") from error
    matched = _FENCE.match(whole.removeprefix("\ufeff"))
    front, text = matched.groups() if matched else ("", whole)
    entries, lines = _entries(path, front)
    if whole.removeprefix("\ufeff").startswith("---") and not matched:
        lines.append(f"{path}:1: the front matter has no closing ---")
    if not text.strip():
        lines.append(f"{path}: no text after the front matter")
    if lines:
        raise InvalidSkill(f"Skill: {'; '.join(lines)}", findings=lines)
    stem = path.parent.name if path.name == "SKILL.md" else path.stem
    allowed = entries.get("allowed-tools")
    return Skill(
        name=_scalar(entries.get("name")) or stem,
        description=_scalar(entries.get("description")),
        text=text.strip(),
        allowed_tools=None if allowed is None else _words(allowed),
        disallowed_tools=_words(entries.get("disallowed-tools", "")),
    )


def _find(named: str | Path, directory: Path | None, base: Path) -> Path:
    places = [base / named]
    if directory is not None and isinstance(named, str) and "/" not in named:
        inside = base / directory
        places = [inside / f"{named}.md", inside / named / "SKILL.md", inside / named / f"{named}.md", inside / named, *places]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        looked = "" if directory is None else f" in {base / directory} or"
        raise _refused(f"{named}: no such skill{looked} at {base / named}")
    return found


def _refused(line: str) -> InvalidSkill:
    return InvalidSkill(f"Skill: {line}", findings=(line,))


def _entries(path: Path, front: str) -> tuple[Mapping[str, str | list[str]], list[str]]:
    """Keys of the front matter with a text or the items below them, and what is wrong."""
    entries: dict[str, str | list[str]] = {}
    faults: list[str] = []
    current = ""
    for number, line in enumerate(front.splitlines(), start=2):
        body = line.strip()
        if not body or body.startswith("#"):
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            current, value = entry.groups()
            if current in entries:
                faults.append(f"{path}:{number}: {current} is there twice")
            if current not in _KEYS and current not in _IGNORED:
                close = get_close_matches(current, _KEYS, n=1)
                faults.append(f"{path}:{number}: unknown key {current}" + (f"; did you mean {close[0]}?" if close else ""))
            entries[current] = value.strip() if value.strip() not in ("", ">", "|", ">-", "|-") else []
        elif isinstance(entries.get(current), list) and (body.startswith("- ") or line[0] in " \t"):
            cast(list[str], entries[current]).append(body.removeprefix("- ").strip())
        else:
            faults.append(f"{path}:{number}: expected `key: value`")
    return entries, faults


def _scalar(value: str | list[str] | None) -> str:
    return " ".join(value) if isinstance(value, list) else (value or "").strip("\"'")


def _words(value: str | list[str]) -> tuple[str, ...]:
    pieces = value if isinstance(value, list) else re.split(r"[,\s]+", value.strip("[] "))
    return tuple(word for piece in pieces if (word := piece.strip("\"' ")))
