"""Each command and each flag, called wrongly: exit code 2, and a message that names what is wrong.

There is no cluster: what is called wrongly is refused before any call.
"""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from peloton.cli.__main__ import main
from peloton.cli.params import Amount, Duration, EnumName, InstanceRange, Instances, Labels
from tests.command_tree import Path, commands

COMMANDS = commands()
PARSED = (Amount, Duration, EnumName, InstanceRange, Instances, Labels, click.Choice, click.IntRange)
"""Types of which not every text is a value."""
WRONG = "%%%"
Refused = Callable[..., str]


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Refused:
    """Calls a command that must be refused as called wrongly; returns what it says."""

    def call(*words: str) -> str:
        assert main(list(words)) == 2, words
        out, err = capfd.readouterr()
        assert out == "" and "Error: " in err
        return err

    return call


def arguments(command: click.Command) -> list[click.Argument]:
    return [each for each in command.params if isinstance(each, click.Argument)]


def value(argument: click.Argument) -> str:
    """Return a right value."""
    if isinstance(argument.type, click.Choice):
        return str(argument.type.choices[0])
    return "1" if isinstance(argument.type, click.IntRange) else "1-1-1"


def values(command: click.Command) -> list[str]:
    """Return a value for each argument that must be given."""
    return [value(each) for each in arguments(command) if each.required]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_words_that_are_unknown_missing_wrong_or_too_many(refused: Refused, path: Path) -> None:
    given, needed = arguments(COMMANDS[path]), values(COMMANDS[path])
    said = refused(*path, "--no-such-flag", *needed)
    assert "No such option" in said and "--no-such-flag" in said
    if needed:
        assert "Missing argument" in refused(*path, *needed[:-1])
    flags = [each for each in COMMANDS[path].params if isinstance(each, click.Option) and each.required]
    if all(each.nargs == 1 for each in given) and not flags:  # a flag that is missing is told first
        assert "unexpected extra argument (x)" in refused(*path, *map(value, given), "x")
    for at, argument in enumerate(given):
        if isinstance(argument.type, PARSED):
            words = [*needed[:at], WRONG, *needed[at + 1 :]]
            assert WRONG in refused(*path, *words), argument.name


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_flag_refuses_what_is_no_value_of_it(refused: Refused, path: Path) -> None:
    command = COMMANDS[path]
    for option in (each for each in command.params if isinstance(each, click.Option)):
        flag = max(option.opts, key=len)
        assert option.help, f"{flag} has no help"
        if option.is_flag:
            assert "does not take a value" in refused(*path, f"{flag}={WRONG}", *values(command))
            continue
        if isinstance(option.type, PARSED):
            said = refused(*path, flag, WRONG, *values(command))
            assert flag in said and WRONG in said
        if not {"exec", "run", "submit"} & set(path):
            assert "requires an argument" in refused(*path, *values(command), flag)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("jobs", "list"), "'job'"),
        (("statsu",), "'status'"),
        (("job", "quary"), "Did you mean 'query'"),
        (("job", "stateless", "list-pod"), "list-pods"),
        (("job", "query", "--lables", "a=b"), "--labels"),
        (("task", "log"), "logs"),
        (("-o", "jsn", "status"), "'json'"),
        (("job", "query", "-o", "name"), "-o is --offset here: give --output name"),
        (("pod", "query", "x", "-o", "json"), "give --output json"),
    ],
)
def test_typing_errors_are_told_with_what_was_meant(refused: Refused, words: Path, hint: str) -> None:
    assert hint in refused(*words)
