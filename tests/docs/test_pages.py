"""Every page of the documentation is played, and what it names exists."""

import re
import tomllib

import pytest

from tests.docs import pages
from tests.docs.player import Player

PAGES = pages.paths()
NAMES = [str(path.relative_to(pages.ROOT)) for path in PAGES]
EVERY_PAGE = pytest.mark.parametrize("path", PAGES, ids=NAMES)


@EVERY_PAGE
def test_every_block_of_the_page_runs(path, tmp_path):
    player = Player(tmp_path)
    try:
        for block in pages.blocks(path.read_text("utf-8")):
            try:
                player.play(block)
            except AssertionError as error:
                pytest.fail(f"{path.relative_to(pages.ROOT)}:{block.line}: {error}", pytrace=False)
    finally:
        player.stop()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (pages.ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def missing_targets(markdown: str) -> list[str]:
    named = [match[1] for line in pages.code(markdown) for match in re.finditer(r"(?:^|[\s$&;])make ([a-z][\w-]*)", line)]
    return [name for name in named if name not in targets()]


def missing_extras(markdown: str) -> list[str]:
    extras = tomllib.loads((pages.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"causeline\[([\w,-]+)\]", "\n".join(pages.code(markdown)))
    return [extra for row in named for extra in row.split(",") if extra not in extras]


@EVERY_PAGE
def test_every_make_target_and_extra_the_page_names_exists(path):
    markdown = path.read_text("utf-8")
    assert not missing_targets(markdown)
    assert not missing_extras(markdown)


def broken_links(path, markdown: str) -> list[str]:
    broken = []
    for link in pages.links(markdown):
        file, _, fragment = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (fragment and target.suffix == ".md" and fragment not in pages.anchors(target)):
            broken.append(link)
    return broken


@EVERY_PAGE
def test_every_link_of_the_page_leads_somewhere(path):
    assert not broken_links(path, path.read_text("utf-8"))


def test_a_missing_target_extra_or_link_is_found(tmp_path):
    markdown = "`make coffee`, `make test`\n```sh\npip install 'causeline[hcl,magic]'\n```\n[a](gone.md) [b](#words) [c](#none)\n# Words\n"
    page = tmp_path / "page.md"
    page.write_text(markdown)
    assert missing_targets(markdown) == ["coffee"]
    assert missing_extras(markdown) == ["magic"]
    assert broken_links(page, markdown) == ["gone.md", "#none"]
