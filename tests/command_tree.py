"""All commands of `peloton`, for tests that hold for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from peloton.cli.app import cli

Path = tuple[str, ...]
OUTPUT = frozenset({"json", "output", "query", "watch", "interval"})
"""Parameters that all commands have, or all that only look."""


def commands() -> dict[Path, click.Command]:
    """Return the commands by their names; `minicluster` and `deploy` have tests of their own."""
    found = dict(_below(cli, click.Context(cli), ()))
    return {path: command for path, command in found.items() if path[0] not in ("minicluster", "deploy")}


def options(command: click.Command) -> list[click.Option]:
    """Return the flags of a command that not all commands have."""
    return [each for each in command.params if isinstance(each, click.Option) and each.name not in OUTPUT]


def _below(command: click.Command, ctx: click.Context, path: Path) -> Iterator[tuple[Path, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(ctx):
        inner = command.get_command(ctx, name)
        assert inner is not None
        yield from _below(inner, ctx, (*path, name))
