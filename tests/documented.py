"""The blocks of the pages of documentation, and the commands in them.

A comment before a block says what cannot be seen from it:

- `<!-- spec: KIND -->`: what a block of YAML or JSON is, where it is no whole spec of a job, service or pool
- `<!-- not run: REASON -->`: why no test runs its commands
- `<!-- run by: FILE -->`: the test that runs them
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from peloton.cli.app import cli
from tools.docs import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = ("sh", "bash")
RUN_BY = {
    "README.md": "tests/cluster/test_pages.py",
    "user-guide.md": "tests/cluster/test_pages.py",
    "operations.md": "tests/cluster/test_pages.py",
    "first-day.md": "tests/cluster/test_first_day.py",
    "json-door.md": "tests/cluster/test_observability.py",
    "clients.md": "tests/clients/check_docs.py",
    "airflow.md": "tests/workloads/check_airflow.py",
}
"""The tests that run all blocks of a page, but for those that say why not."""
Words = tuple[str, ...]

_OPEN = re.compile(r" *```(\w*) *$")
_CLOSE = re.compile(r" *``` *$")
_MARK = re.compile(r" *<!-- (spec|not run|run by): (.+?) -->$")
_HEREDOC = re.compile(r"<<-?'?(\w+)'?.*\n(?:.*\n)*?\1\n")
_COMMENT = re.compile(r"(^|\s)#\s.*$", re.MULTILINE)
_SUBSTITUTED = re.compile(r"\$\(([^()]+)\)")
_INLINE = re.compile(r"`(peloton [^`]+)`")
_ASSIGNED = re.compile(r"\w+=")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""
    """`spec`, `not run` or `run by`, where a comment before the block says so."""
    said: str = ""
    """What the comment says."""

    @property
    def place(self) -> str:
        """Where the block begins."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page. An unclosed one goes to its end."""
    found: Block | None = None
    lines: list[str] = []
    last = ""
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if found is not None and _CLOSE.match(line):
            yield replace(found, text=textwrap.dedent("".join(lines)))
            found, lines, last = None, [], ""
        elif found is not None:
            lines.append(f"{line}\n")
        elif opened := _OPEN.match(line):
            mark = _MARK.match(last)
            found = Block(page, number, opened[1], "", *(mark.groups() if mark else ()))
        elif line.strip():
            last = line
    if found is not None:
        yield replace(found, text="".join(lines))


def commands(script: str) -> Iterator[Words]:
    """Yield the words of each command `peloton` of a script of the shell."""
    text = _COMMENT.sub("", _HEREDOC.sub("\n", script).replace("\\\n", " "))
    for inner in _SUBSTITUTED.findall(text):
        yield from commands(inner)
    lexer = shlex.shlex(_SUBSTITUTED.sub("VALUE", text), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t", "", True
    words: list[str] = []
    redirected = False
    for token in [*lexer, ";"]:
        if set(token) <= set("<>&") and set(token) & set("<>"):
            redirected = True
        elif set(token) <= set("();<>|&\n"):
            yield from _command(words)
            words, redirected = [], False
        elif not redirected:
            words.append(token)
        else:
            redirected = False


def _command(words: list[str]) -> Iterator[Words]:
    while words and _ASSIGNED.match(words[0]):
        words = words[1:]
    if words and words[0] == "peloton":
        yield tuple(words[1:])


def told(page: Path) -> Iterator[Words]:
    """Yield the commands that a page names between its blocks, and those after a prompt in these."""
    inside, text = False, []
    for line in page.read_text().splitlines():
        if _OPEN.match(line) or _CLOSE.match(line):
            inside = not inside
        elif line.lstrip().startswith("$ peloton "):
            yield from commands(line.lstrip().removeprefix("$ "))
        elif not inside:
            text.append(line)
    for found in _INLINE.findall("\n".join(text)):
        plain = re.sub(r"\[(?=-)|(?<=\w)\](?= |$)|…|\.\.\.", "", " ".join(found.split()))
        yield from commands(re.sub(r"(?<=[\w-])\|(?=[\w-])", "/", plain))


def alternatives(words: Words) -> Sequence[Words]:
    """Return a command for each of the words that stand with slashes between them, such as stop/start."""
    for place, word in enumerate(words):
        names = word.split("/")
        if len(names) > 1 and all(re.fullmatch(r"[a-z][a-z-]*", name) for name in names):
            rest = [(*words[:place], name, *words[place + 1 :]) for name in names]
            return [each for one in rest for each in alternatives(one)]
    return [words]


def names_a_command(words: Words) -> bool:
    """Whether words are the name of a command or group alone."""
    command: click.Command | None = cli
    for word in words:
        if not isinstance(command, click.Group):
            return False
        command = command.get_command(click.Context(command), word)
    return command is not None


def parse(words: Words) -> None:
    """Parse a command as `peloton` does, without running it. Raise ClickException, naming what is wrong."""
    _parse(cli, "peloton", list(words), None)


def _parse(command: click.Command, name: str, words: list[str], parent: click.Context | None) -> None:
    ctx = command.make_context(name, words, parent=parent)
    if isinstance(command, click.Group):
        rest = [*ctx._protected_args, *ctx.args]
        if not rest:
            return
        found, inner, rest = command.resolve_command(ctx, rest)
        assert inner is not None
        _parse(inner, str(found), rest, ctx)
