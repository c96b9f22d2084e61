"""Each command and each flag, called wrongly: exit code 2, and a message that names what is wrong."""

from __future__ import annotations

import click
import pytest

from peloton.cli.params import Amount, Duration, EnumName, InstanceRange, Instances, Labels
from tests.command_tree import OUTPUT, Path, commands

from .conftest import Run
from .fakes import FakeDaemons

COMMANDS = commands()
PARSED = (Amount, Duration, EnumName, InstanceRange, Instances, Labels, click.Choice, click.IntRange)
"""Types of which not every text is a value."""
WRONG = "%%%"


def arguments(command: click.Command) -> list[click.Argument]:
    return [each for each in command.params if isinstance(each, click.Argument)]


def values(command: click.Command) -> list[str]:
    """A value for each argument that must be given."""
    found = []
    for each in arguments(command):
        kind = each.type
        number = isinstance(kind, click.IntRange)
        value = kind.choices[0] if isinstance(kind, click.Choice) else "1" if number else "x"
        found += [str(value)] * each.required
    return found


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_unknown_flags_and_too_few_or_too_many_words(run: Run, daemons: FakeDaemons, path: Path) -> None:
    command = COMMANDS[path]
    outcome = run(*path, "--no-such-flag", *values(command))
    assert outcome.code == 2 and "No such option" in outcome.err and "--no-such-flag" in outcome.err
    needed = values(command)
    if needed:
        outcome = run(*path, *needed[:-1])
        assert outcome.code == 2 and "Missing argument" in outcome.err
    if all(each.nargs == 1 for each in arguments(command)):
        outcome = run(*path, *["1" for _ in arguments(command)], "x")
        assert outcome.code == 2 and outcome.out == ""
    assert not daemons.asked


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_flag_refuses_what_is_no_value_of_it(run: Run, daemons: FakeDaemons, path: Path) -> None:
    command = COMMANDS[path]
    for option in (each for each in command.params if isinstance(each, click.Option)):
        flag = max(option.opts, key=len)
        if option.is_flag:
            outcome = run(*path, f"{flag}={WRONG}", *values(command))
            assert outcome.code == 2 and "does not take a value" in outcome.err, flag
        elif isinstance(option.type, PARSED):
            outcome = run(*path, flag, WRONG, *values(command))
            assert outcome.code == 2 and flag in outcome.err and WRONG in outcome.err, (flag, outcome)
        assert run(*path, *values(command), flag).code == 2 or option.is_flag or "exec" in path, flag
    assert not daemons.asked or any(option.is_flag and option.name not in OUTPUT for option in command.params)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_argument_that_is_parsed_refuses_what_is_none(
    run: Run, daemons: FakeDaemons, path: Path
) -> None:
    command = COMMANDS[path]
    given = arguments(command)
    for at, argument in enumerate(given):
        if isinstance(argument.type, PARSED):
            words = values(command)
            words[at : at + 1] = [WRONG]
            outcome = run(*path, *words)
            assert outcome.code == 2 and WRONG in outcome.err, argument.name
    assert not daemons.asked


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_command_has_its_help(run: Run, path: Path) -> None:
    outcome = run(*path, "--help")
    assert outcome.code == 0 and outcome.out.startswith(f"Usage: peloton {' '.join(path)} ")
    for option in COMMANDS[path].params:
        assert not isinstance(option, click.Option) or option.help, option.name


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("jobs", "list"), "job"),
        (("job", "quary"), "query"),
        (("job", "stateless", "list-pod"), "list-pods"),
        (("job", "query", "--lables", "a=b"), "--labels"),
        (("statsu",), "status"),
        (("task", "log"), "logs"),
        (("-o", "jsn", "status"), "json"),
    ],
)
def test_typing_errors_are_told_with_what_was_meant(run: Run, words: Path, hint: str) -> None:
    outcome = run(*words)
    assert outcome.code == 2 and hint in outcome.err
