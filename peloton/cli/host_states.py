"""States of hosts as commands take and show them: those in maintenance, and LOST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostInfo, LostHost

LOST = "LOST"
TASKS_SHOWN = 3
"""Tasks of a lost host that are named."""


class HostStates(click.ParamType[list[str]]):
    """A comma-separated list of states, without case and prefix."""

    name = "states"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Parse names into the states' own."""
        if isinstance(value, list):
            return value
        from peloton.api.v0.host import host_pb2
        from peloton.client.matching import enum_numbers, normalized, short_names, suggestion

        states = host_pb2.HostState.DESCRIPTOR
        numbers, names = enum_numbers(states), [*short_names(states), LOST]
        found: list[str] = []
        for part in filter(None, (part.strip() for part in value.split(","))):
            number = numbers.get(normalized(part))
            if number is not None:
                found.append(_name(number))
            elif normalized(part) == normalized(LOST):
                found.append(LOST)
            else:
                self.fail(f"{part!r} is not one of {', '.join(names)}{suggestion(part, names)}", param, ctx)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the last name of the list."""
        from peloton.api.v0.host import host_pb2
        from peloton.client.matching import short_names

        before, comma, last = incomplete.rpartition(",")
        names = [*short_names(host_pb2.HostState.DESCRIPTOR), LOST]
        return [CompletionItem(f"{before}{comma}{each}") for each in names if each.startswith(last.upper())]


def state_of(info: HostInfo) -> str:
    """Return the state of a host in short, such as UP or LOST."""
    return LOST if info.HasField("lost") else _name(info.state)


def lost_text(lost: LostHost) -> str:
    """Return since when a host is lost, why, and what ran there."""
    count = plural(lost.task_count, "task")
    named = ", ".join(lost.tasks[:TASKS_SHOWN]) + (", …" if lost.task_count > TASKS_SHOWN else "")
    ran = f"; {count} ran there: {named}" if lost.task_count else ""
    return f"since {lost.since}: {lost.reason}{ran}"


def _name(state: Any) -> str:
    from peloton.api.v0.host import host_pb2

    return host_pb2.HostState.Name(state).removeprefix("HOST_STATE_")
