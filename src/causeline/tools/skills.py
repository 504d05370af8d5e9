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
from causeline.models.messages import Json
from causeline.tools.tool import Tool, ToolContext, schema_tool

MAX_BYTES = 1_000_000
MAX_SHOWN = 4_000
"""Characters of a skill's text that go into the system prompt; a longer one is read when it is needed."""
READ_SKILL = "read_skill"
SKILL_DIR = Path("skills")
"""Where skills are looked for by name, unless another directory is given. It need not be there."""
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
    """The skills as a part of a system prompt, "" if there are none: whole, or where they are long what they are about."""
    return "\n\n".join(f"### Skill: {skill.name} [system] — {skill.description}\n\n{_shown(skill)}" for skill in skills)


def _shown(skill: Skill) -> str:
    if not is_long(skill):
        return skill.text.strip()
    return f"Its text has {len(skill.text.strip())} characters. Read it with {READ_SKILL}(name={skill.name!r}) before you use the skill."


def is_long(skill: Skill) -> bool:
    """Whether a skill's text is read only when it is needed."""
    return len(skill.text.strip()) > MAX_SHOWN


def skill_readers(skills: Iterable[Skill]) -> tuple[Tool, ...]:
    """The tool that gives the text of long skills; none where there are none."""
    texts = {skill.name: skill.text.strip() for skill in skills if is_long(skill)}
    if not texts:
        return ()

    async def read(arguments: Json, _context: ToolContext) -> str:
        return texts[arguments["name"]]

    reader = schema_tool(
        READ_SKILL,
        "Read the whole text of a skill.",
        {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": sorted(texts), "description": "The skill."}},
            "required": ["name"],
            "additionalProperties": False,
        },
        read,
        effects=False,
        max_chars=MAX_BYTES,
    )
    return (reader,)


def load_skills(skills: Iterable[Skill | str | Path], directory: Path | None, base: Path | None = None) -> tuple[Skill, ...]:
    """The skills named: a Skill, a path, or a name in `directory` (`NAME.md`, `NAME/SKILL.md`, `NAME/NAME.md`; default: `skills`).

    Relative paths start at `base` (default: the working directory). Raises InvalidSkill with every fault.
    """
    found: list[Skill] = []
    lines: list[str] = []
    for each in skills:
        if isinstance(each, Skill):
            found.append(each)
            continue
        try:
            found.append(skill_in(_find(each, directory or SKILL_DIR, base or Path())))
        except InvalidSkill as error:
            lines.extend(str(line) for line in error.findings)
    names = [skill.name for skill in found]
    lines.extend(f"two skills are named {name}" for name in dict.fromkeys(names) if names.count(name) > 1)
    if lines:
        raise InvalidSkill(f"Skills: {'; '.join(lines)}", findings=lines)
    return tuple(found)


def skill_in(path: Path) -> Skill:
    """The skill in a file. Front matter between two `---` lines gives `name` (default: the file's), `description`, and the two lists.

    A list is `[a, b]`, `a, b`, words with spaces between, or lines `- a`. Raises InvalidSkill with every fault.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _refused(f"{path}: larger than {MAX_BYTES} bytes")
        whole = path.read_text(encoding="utf-8-sig")
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


def _find(named: str | Path, directory: Path, base: Path) -> Path:
    places = [base / named]
    if isinstance(named, str) and "/" not in named:
        inside = base / directory
        places = [inside / f"{named}.md", inside / named / "SKILL.md", inside / named / f"{named}.md", inside / named, *places]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise _refused(f"{named}: no such skill in {base / directory} or at {base / named}")
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
