"""Command groups: loaded when called, with suggestions for typing errors, and `-j` on every command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import click

from peloton.cli.json_query import JsonQuery
from peloton.cli.params import Duration
from peloton.cli.references import resolve_all
from peloton.cli.session import OUTPUTS, Session
from peloton.errors import NotFound

VIEWS = frozenset(
    (
        *("get", "list", "query", "status", "why", "cache", "dump", "events", "hosts", "offers", "pending"),
        *("active", "orphan", "active-list", "list-pods", "list-updates", "list-hosts", "events-v1alpha"),
        *("throttled-pods", "query-job-cache", "instance-availability", "usage"),
        *("priority-classes", "runs"),
    )
)
"""Commands that change nothing and end at once: they take `--watch`."""
_WATCH = "peloton.watch"


class Command(click.Command):
    """A command that also takes the global flags of the output, so that these may follow its name too.

    `-o` is `--output` unless the command has an `-o` of its own. Commands that only look take `--watch`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        taken = {flag for param in self.params for flag in param.opts}
        self.params.append(
            click.Option(
                ["-j", "--json"], is_flag=True, expose_value=False, callback=_set_json, help="Print JSON."
            )
        )
        self.params.append(
            click.Option(
                ["--output"] if "-o" in taken else ["-o", "--output"],
                type=click.Choice(OUTPUTS),
                expose_value=False,
                callback=_set_output,
                help="How to print.",
            )
        )
        self.params.append(
            click.Option(
                ["--query"] if "-q" in taken else ["-q", "--query"],
                type=JsonQuery(),
                expose_value=False,
                callback=_set_query,
                help="Print what an expression of JMESPath chooses of the JSON.",
            )
        )
        if self.name in VIEWS:
            self.params += _watch_options()

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with --watch again and again."""
        given = ctx.meta.get(_WATCH, {})
        session = ctx.find_object(Session)
        run = super().invoke
        if session is not None:
            resolve_all(ctx, session)
        if not given.get("watch") or session is None:
            return run(ctx)
        from peloton.cli.screen import watch

        return watch(session, ctx.command_path, given["interval"], lambda: run(ctx))


def _watch_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["-w", "--watch"],
            is_flag=True,
            expose_value=False,
            callback=_keep,
            help="Show it again and again, until q is pressed.",
        ),
        click.Option(
            ["--interval"],
            type=Duration(),
            default="2s",
            show_default=True,
            expose_value=False,
            callback=_keep,
            help="How often, with --watch.",
        ),
    ]


class Group(click.Group):
    """A group of commands that take `-j/--json`."""

    command_class = Command
    group_class = type


class LazyEntry(NamedTuple):
    """A group in a module of its own: `module:attribute` and its line in the help."""

    target: str
    """Empty where another distribution may have it, which registers it as an entry point."""
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
        """Import and return a group, None for one that is unknown or not installed."""
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        if not lazy.target:
            return _registered(cmd_name)
        module, _, name = lazy.target.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called group. Raises NoSuchCommand with suggestions."""
        if ctx.resilient_parsing and (not args or args[0] not in self._lazy):
            return None, None, args
        if args and args[0] not in self._lazy and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=list(self._lazy), ctx=ctx)
        lazy = self._lazy.get(args[0]) if args else None
        if lazy is not None and not lazy.target and _registered(args[0]) is None:
            raise NotFound(
                f"`peloton {args[0]}` is not installed in this environment: "
                "the distribution `peloton` has it; install that again"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of groups without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self._lazy.items()])


@cache
def _registered(name: str) -> click.Command | None:
    """Return a command that another distribution has, if one is installed that has it. Raises Refused."""
    from peloton.client.extensions import COMMANDS, extension

    command = extension(COMMANDS, name)
    assert command is None or isinstance(command, click.Command)
    return command


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_WATCH, {})[param.name] = value


def _set_output(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    session = ctx.find_object(Session)
    if value and session is not None:
        session.output = value


def _set_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    session = ctx.find_object(Session)
    if value and session is not None:
        session.json = True


def _set_query(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    session = ctx.find_object(Session)
    if value is not None and session is not None:
        session.query = value
