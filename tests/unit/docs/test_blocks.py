"""Every command of the pages is one, every spec is valid, and every block is run or says why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.documented import (
    PAGES,
    RUN_BY,
    SHELL,
    Block,
    Words,
    alternatives,
    blocks,
    commands,
    names_a_command,
    parse,
    told,
)
from tools.docs import ROOT

from .readers import reader

WORDS = {"INSTANCE": "0", "BATCH-SIZE": "1", "VERSION": "1-1-1", "RANGES": "0:2"}
"""What stands for the words in capitals that are no text."""
CHECKED = ("yaml", "json")
PRINTED = ("json-door.md",)
"""Pages whose JSON is what their commands print."""
BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, in which the test is."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrong(words: Words, folder: Path) -> str:
    """Return what is wrong with a command; the files that it names are there."""
    for word in words:
        if re.fullmatch(r"[\w-]+\.(yaml|json|jsonl|csv|pem)|FILE", word):
            (folder / word).touch()
    try:
        parse(tuple(WORDS.get(word, word) for word in words))
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        return f"{' '.join(words)}: {error.format_message()}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_is_one(page: Path, folder: Path) -> None:
    found = [words for block in blocks(page) if block.language in SHELL for words in commands(block.text)]
    named = [each for words in told(page) for each in alternatives(words) if not names_a_command(each)]
    if page.name == "cli.md":  # made from the commands, with the forms of their arguments
        named = []
    assert [text for words in (*found, *named) if (text := wrong(words, folder))] == []


@pytest.mark.parametrize(
    "block",
    [each for each in BLOCKS if each.language in CHECKED and each.page.name not in PRINTED],
    ids=lambda block: block.place,
)
def test_each_spec_is_valid(block: Block, folder: Path) -> None:
    file = folder / f"block.{block.language}"
    file.write_text(block.text)
    reader(block.said if block.mark == "spec" else "")(file)


@pytest.mark.parametrize(
    "block", [each for each in BLOCKS if each.language == "python"], ids=lambda block: block.place
)
def test_each_program_compiles(block: Block) -> None:
    compile(block.text, block.place, "exec")


def unrun() -> Iterator[str]:
    """Yield the blocks of commands and programs that no test runs."""
    for block in BLOCKS:
        if block.language in (*SHELL, "python") and block.page.name not in RUN_BY and block.mark == "":
            yield block.place


def test_each_block_is_run_or_says_why_not() -> None:
    assert list(unrun()) == []


def test_what_runs_the_blocks_is_there() -> None:
    tests = {*RUN_BY.values(), *(block.said for block in BLOCKS if block.mark == "run by")}
    assert [name for name in tests if not (ROOT / name).is_file()] == []
    for page, name in RUN_BY.items():
        assert page in (ROOT / name).read_text(), (page, name)


def test_no_block_is_overlooked() -> None:
    fences = sum(len(re.findall(r"^ *```", page.read_text(), re.M)) for page in PAGES)
    assert fences == 2 * len(BLOCKS)
    marked = sum(
        len(re.findall(r"^ *<!-- (?:spec|not run|run by): ", page.read_text(), re.M)) for page in PAGES
    )
    assert marked == sum(bool(block.mark) for block in BLOCKS), "a comment that is none of a block"
    outside = [
        f"{page.name}: {line}"
        for page in PAGES
        for line in re.findall(
            r"^ {4,}peloton .*", re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S), re.M
        )
    ]
    assert outside == [], "a command outside of a block"


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Call `peloton job why|stop JOB`, `peloton job wy` or `peloton job get`.\n\n"
        "<!-- not run: no reason -->\n```sh\ncat > x <<END\npeloton nothing\nEND\n"
        "A=b peloton job query --limt 1 | head -n 1   # peloton not\n"
        "JOB=$(peloton -o name job query --limit 1) && peloton task get \\\n  $JOB x > out\n```\n"
    )
    [block] = blocks(page)
    assert (block.mark, block.said, block.line) == ("not run", "no reason", 4)
    found = list(commands(block.text))
    assert found == [
        ("-o", "name", "job", "query", "--limit", "1"),
        ("job", "query", "--limt", "1"),
        ("task", "get", "$JOB", "x"),
    ]
    assert [bool(wrong(words, tmp_path)) for words in found] == [False, True, True]
    named = [each for words in told(page) for each in alternatives(words)]
    assert [names_a_command(each) for each in named] == [False, False, False, True]
    assert [bool(wrong(words, tmp_path)) for words in named[:3]] == [False, False, True]
