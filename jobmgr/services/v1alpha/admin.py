"""AdminService: an operator halts components of the job manager (docs/behaviour/operation.md, Lockdown)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from jobmgr.engine.lockdown import Lockdown
from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb
from peloton.api.v1alpha.admin.svc import admin_svc_pb2_grpc
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.lockdown import Component

Failures = list[pb.ComponentFailure]
log = logging.getLogger(__name__)


class AdminService(admin_svc_pb2_grpc.AdminServiceServicer):
    """Serves the v1alpha AdminService. It is never locked itself.

    Every method raises InvalidArgument for a request without components. A component that is unknown or
    cannot be stored is a failure of its own in the answer; the others are switched.
    """

    def __init__(self, lockdown: Lockdown) -> None:
        self._lockdown = lockdown

    async def Lockdown(self, request: pb.LockdownRequest, context: Any) -> pb.LockdownResponse:
        """Halt components, also after a restart. One that is locked already stays so."""
        done, failures = await _switch(request.components, self._lockdown.lock, "locked")
        return pb.LockdownResponse(successes=done, failures=failures)

    async def RemoveLockdown(
        self, request: pb.RemoveLockdownRequest, context: Any
    ) -> pb.RemoveLockdownResponse:
        """Let components work again. One that is not locked stays so."""
        done, failures = await _switch(request.components, self._lockdown.unlock, "unlocked")
        return pb.RemoveLockdownResponse(successes=done, failures=failures)


async def _switch(
    wanted: Iterable[pb.Component.ValueType], switch: Callable[[Component], Awaitable[None]], verb: str
) -> tuple[Sequence[pb.Component.ValueType], Failures]:
    """Switch each component once, in the order given; return those that were switched and the failures."""
    done: list[pb.Component.ValueType] = []
    failures: Failures = []
    components = list(dict.fromkeys(wanted))
    if not components:
        raise InvalidArgument("components", [], f"one or more of {', '.join(pb.Component.keys())}")
    for i, number in enumerate(components):
        try:
            component = _component(i, number)
            await switch(component)
        except (InvalidArgument, Unavailable) as error:
            failures.append(pb.ComponentFailure(component=number, FailureMessage=str(error)))
            continue
        log.warning("%s is %s by an operator", component.value, verb)
        done.append(number)
    return done, failures


def _component(index: int, number: pb.Component.ValueType) -> Component:
    if number not in pb.Component.values():
        known = ", ".join(f"{name} ({value})" for name, value in pb.Component.items())
        raise InvalidArgument(f"components[{index}]", number, f"one of {known}")
    return Component(pb.Component.Name(number))
