"""`peloton admin`: halt components of the job manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS, request_of
from peloton.errors import Refused

if TYPE_CHECKING:
    import grpc
    from google.protobuf.internal.containers import (
        RepeatedCompositeFieldContainer,
        RepeatedScalarFieldContainer,
    )

    from peloton.api.v1alpha.admin.svc.admin_svc_pb2 import Component, ComponentFailure


class SwitchRequest(Protocol):
    """A request about components."""

    @property
    def components(self) -> RepeatedScalarFieldContainer[Component.ValueType]:
        """What to halt or let go on."""
        ...


class Switched(Protocol):
    """What became of components."""

    @property
    def successes(self) -> RepeatedScalarFieldContainer[Component.ValueType]:
        """Those that were switched."""
        ...

    @property
    def failures(self) -> RepeatedCompositeFieldContainer[ComponentFailure]:
        """Those that were not, with reasons."""
        ...


Request = TypeVar("Request", bound=SwitchRequest)
Answer = TypeVar("Answer", bound=Switched)
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

    GoalStateEngine holds back all enqueueing, launching and killing, Launch and Kill only what their
    name says; Read and Write refuse calls.
    """
    _switch(session, RPCS.admin_svc.Lockdown, components, "locked")


@admin.command()
@COMPONENTS
@pass_session
def unlock(session: Session, components: tuple[str, ...]) -> None:
    """Let components work again."""
    _switch(session, RPCS.admin_svc.RemoveLockdown, components, "unlocked")


def _switch(
    session: Session,
    rpc: grpc.UnaryUnaryMultiCallable[Request, Answer],
    components: tuple[str, ...],
    verb: str,
) -> None:
    from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb

    request = request_of(rpc)
    request.components.extend(pb.Component.Value(name) for name in components)
    response = session.call(rpc, request)
    session.show(response, lambda: _text(response, verb))
    if response.failures:
        failed = "; ".join(
            f"{_name(failure.component)} is not {verb}: {failure.FailureMessage}"
            for failure in response.failures
        )
        raise Refused(failed)


def _text(response: Switched, verb: str) -> str:
    return "\n".join(f"{_name(component)}: {verb}" for component in response.successes)


def _name(component: Component.ValueType) -> str:
    from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb

    known = component in pb.Component.values()
    return str(pb.Component.Name(component)) if known else f"component {component}"
