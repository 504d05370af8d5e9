"""Skill files are understood or refused."""

import pytest

from causeline.tools import Toolbox, ToolContext
from causeline.tools.execute import execute
from causeline.tools.function import tool
from causeline.tools.skills import InvalidSkill, Skill, load_skills, skill_in, skill_text


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@tool
def lookup() -> str:
    return "found"


@tool
def other() -> str:
    return "other"


@pytest.mark.parametrize("listed", ["[read, write]", "read, write", "read write", "\n  - read\n  - write", "['read', \"write\"]"])
def test_front_matter_and_its_lists(tmp_path, listed):
    path = written(
        tmp_path / "careful.md",
        f"---\nname: careful\ndescription: Think first: twice\nallowed-tools: {listed}\nlicense: MIT\n---\n\nBe careful.\n",
    )
    assert skill_in(path) == Skill("careful", "Think first: twice", "Be careful.", ("read", "write"), ())


def test_without_front_matter_the_file_names_the_skill(tmp_path):
    assert skill_in(written(tmp_path / "plain.md", "Only text.")) == Skill("plain", "", "Only text.")
    assert skill_in(written(tmp_path / "folder" / "SKILL.md", "Only text.")).name == "folder"


def test_an_empty_list_allows_nothing(tmp_path):
    assert skill_in(written(tmp_path / "s.md", "---\nallowed-tools: []\n---\nt")).allowed_tools == ()


@pytest.mark.parametrize(
    "text, fault",
    [
        ("---\ndissallowed-tools: rm\n---\nt", r"s\.md:2: unknown key dissallowed-tools; did you mean disallowed-tools\?"),
        ("---\nname: a\nname: b\n---\nt", r"s\.md:3: name is there twice"),
        ("---\nname: a\njust words\n---\nt", r"s\.md:3: expected `key: value`"),
        ("---\nname: a\nt", "no closing ---"),
        ("---\nname: a\n---\n  \n", "no text"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(tmp_path, text, fault):
    with pytest.raises(InvalidSkill, match=fault):
        skill_in(written(tmp_path / "s.md", text))


def test_skills_are_found_by_name_or_path(tmp_path):
    written(tmp_path / "skills" / "one.md", "One.")
    written(tmp_path / "skills" / "two" / "SKILL.md", "Two.")
    written(tmp_path / "elsewhere.md", "Three.")
    given = Skill("four", "d", "Four.")
    found = load_skills(["one", "two", "elsewhere.md", given], tmp_path / "skills", tmp_path)
    assert [(skill.name, skill.text) for skill in found] == [("one", "One."), ("two", "Two."), ("elsewhere", "Three."), ("four", "Four.")]


def test_every_missing_skill_is_named_at_once(tmp_path):
    with pytest.raises(InvalidSkill) as caught:
        load_skills(["a", "b", Skill("c", "", "t"), Skill("c", "", "t")], tmp_path / "skills", tmp_path)
    assert [line.partition(":")[0] for line in caught.value.findings] == ["a", "b", "two skills are named c"]


def test_files_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "binary.md"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSkill, match="cannot be read"):
        skill_in(path)


def test_rendering():
    skills = [Skill("a", "first", "A."), Skill("b", "second", "B.\n")]
    assert skill_text(skills) == "### Skill: a [system] — first\n\nA.\n\n### Skill: b [system] — second\n\nB."
    assert skill_text([]) == ""


async def test_a_long_skill_is_shown_by_what_it_is_about_and_read_when_needed():
    short, long = Skill("short", "About little", "s" * 4_000, ("lookup",)), Skill("long", "About much", "l" * 4_001 + " END")
    box = Toolbox([lookup], use=["lookup"], skills=[short, long])
    assert box.names() == ("lookup", "read_skill")
    text = box.skill_text()
    assert "s" * 4_000 in text
    assert "About much" in text
    assert "read_skill(name='long')" in text
    assert "END" not in text
    executed = await execute(box.get("read_skill"), {"name": "long"}, ToolContext(call_id="c"))
    assert executed.result == "l" * 4_001 + " END"
    assert not (await execute(box.get("read_skill"), {"name": "short"}, ToolContext(call_id="c"))).ok
    assert Toolbox([lookup], skills=[short]).names() == ("lookup",)
    assert box.with_tools([other]).names() == ("lookup", "read_skill", "other")


def test_skills_are_looked_for_in_a_folder_of_that_name(tmp_path):
    written(tmp_path / "skills" / "careful.md", "Be careful.")
    assert [skill.name for skill in load_skills(["careful"], None, tmp_path)] == ["careful"]
    with pytest.raises(InvalidSkill, match=r"no such skill in .*skills or at"):
        load_skills(["careless"], None, tmp_path)
