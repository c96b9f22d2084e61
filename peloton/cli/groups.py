"""Command groups: loaded when called, with suggestions for typing errors, and `-j` on every command."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from peloton.cli.session import Session


class Command(click.Command):
    """A command that also takes the global `-j/--json`, so that the flag may follow its name too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["-j", "--json"], is_flag=True, expose_value=False, callback=_set_json, help="Print JSON."
            )
        )


class Group(click.Group):
    """A group of commands that take `-j/--json`."""

    command_class = Command
    group_class = type


class LazyEntry(NamedTuple):
    """A group in a module of its own: `module:attribute` and its line in the help."""

    target: str
    help: str


class LazyGroup(Group):
    """A group whose members are imported when one is called; its help needs none of them."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the groups."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a group, None for an unknown name."""
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        module, _, name = lazy.target.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called group. Raises NoSuchCommand with suggestions."""
        if args and args[0] not in self._lazy and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=list(self._lazy), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of groups without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])


def _set_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    session = ctx.find_object(Session)
    if value and session is not None:
        session.json = True
