"""`peloton admin`: halt components of the job manager."""

from __future__ import annotations

from typing import Any

import click

from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session
from peloton.errors import Refused

COMPONENTS = click.argument(
    "components",
    nargs=-1,
    required=True,
    metavar="GoalStateEngine|Read|Write|Kill|Launch...",
    type=click.Choice(("GoalStateEngine", "Read", "Write", "Kill", "Launch"), case_sensitive=False),
)


@click.group(cls=Group)
def admin() -> None:
    """Halt components of the job manager."""


@admin.command()
@COMPONENTS
@pass_session
def lock(session: Session, components: tuple[str, ...]) -> None:
    """Halt components until they are unlocked, also over a restart.

    GoalStateEngine holds back all enqueueing, launching and killing, Launch and Kill only one of these; Read
    and Write refuse calls.
    """
    _switch(session, "Lockdown", components, "locked")


@admin.command()
@COMPONENTS
@pass_session
def unlock(session: Session, components: tuple[str, ...]) -> None:
    """Let components work again."""
    _switch(session, "RemoveLockdown", components, "unlocked")


def _switch(session: Session, method: str, components: tuple[str, ...], verb: str) -> None:
    from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb

    request = getattr(pb, f"{method}Request")(components=[pb.Component.Value(name) for name in components])
    response = session.call("admin_svc", method, request)
    session.show(response, lambda: _text(response, verb))
    if response.failures:
        failed = "; ".join(
            f"{_name(failure.component)} is not {verb}: {failure.FailureMessage}"
            for failure in response.failures
        )
        raise Refused(failed)


def _text(response: Any, verb: str) -> str:
    return "\n".join(f"{_name(component)}: {verb}" for component in response.successes)


def _name(component: Any) -> str:
    from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb

    known = component in pb.Component.values()
    return str(pb.Component.Name(component)) if known else f"component {component}"
