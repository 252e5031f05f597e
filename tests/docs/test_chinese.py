"""The Chinese pages are in step with the English ones: headings, commands, tables, links."""

import re
from pathlib import Path

import pytest

PAIRS = [("README.md", "README.zh.md"), ("docs/tutorial.md", "docs/zh/tutorial.md")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
COMMENT = re.compile(r"\s+# .*$", re.MULTILINE)
CODE_WORD = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")

pytestmark = pytest.mark.parametrize(("english", "chinese"), PAIRS)


def read(repository: Path, name: str) -> str:
    return (repository / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    return FENCE.sub("", text)


def links(repository: Path, name: str) -> set[Path | str]:
    """Where the links lead: files as paths, web pages as they stand; a translation counts as its original."""
    translated = {(repository / chinese).resolve(): (repository / english).resolve() for english, chinese in PAIRS}
    found: set[Path | str] = set()
    for link in LINK.findall(prose(read(repository, name))):
        if "://" in link:
            found.add(link)
            continue
        path = (repository / name).parent.joinpath(link.partition("#")[0]).resolve()
        found.add(translated.get(path, path))
    return found


def test_headings_have_the_same_levels_in_the_same_order(repository: Path, english: str, chinese: str) -> None:
    assert HEADING.findall(prose(read(repository, chinese))) == HEADING.findall(prose(read(repository, english)))


def test_blocks_hold_the_same_commands_in_the_same_order(repository: Path, english: str, chinese: str) -> None:
    def blocks(name: str) -> list[tuple[str, str]]:
        return [(kind, COMMENT.sub("", body)) for kind, body in FENCE.findall(read(repository, name))]

    assert blocks(chinese) == blocks(english)
    assert any("$ " in body for _, body in blocks(english))


def test_tables_have_the_same_rows(repository: Path, english: str, chinese: str) -> None:
    def first_cells(name: str) -> list[int]:
        return [line.count("|") for line in prose(read(repository, name)).splitlines() if line.startswith("|")]

    assert first_cells(chinese) == first_cells(english)


def test_words_that_a_program_prints_or_reads_are_not_translated(
    repository: Path, english: str, chinese: str
) -> None:
    said = set(CODE_WORD.findall(prose(read(repository, english))))
    assert said - set(CODE_WORD.findall(prose(read(repository, chinese)))) == set()


def test_links_lead_to_the_same_pages_and_none_is_dead(repository: Path, english: str, chinese: str) -> None:
    here = {(repository / english).resolve()}
    assert links(repository, chinese) - here == links(repository, english) - here
    files = [link for link in links(repository, chinese) | links(repository, english) if isinstance(link, Path)]
    assert [file for file in files if not file.exists()] == []
