"""Lockdown of Read and Write: one of the two refuses each method of each service, with code and message."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from jobmgr.server import NAMES
from jobmgr.services.common.lockdown import component_of
from peloton.clock import ManualClock
from peloton.model.lockdown import Component
from tests.unit.jobmgr_services.conftest import Served
from tests.unit.jobmgr_services.fakes import FakeEngine, FakeHostmgr, served_by
from tests.unit.jobmgr_services.test_with_engine import real

__all__ = ["real"]
ADMIN = "peloton.api.v1alpha.admin.svc.AdminService"


def methods() -> Iterator[tuple[str, bool]]:
    """Each method that a lockdown may refuse, under each name, and whether it answers with a stream."""
    no_store: Any = SimpleNamespace(secrets=None)
    for service in served_by(FakeEngine(no_store), ManualClock(), FakeHostmgr()):
        for name in service.names:
            if name != ADMIN:
                for method, handler in service.methods.items():
                    yield f"/{name}/{method}", handler.response_streaming


METHODS = sorted(methods())


async def call(served: Served, path: str, streams: bool) -> grpc.aio.AioRpcError | None:
    """Call a method with an empty request; return its failure."""
    try:
        if streams:
            async for _ in served.channel.unary_stream(path)(b""):
                pass
        else:
            await served.channel.unary_unary(path)(b"")
    except grpc.aio.AioRpcError as error:
        return error
    return None


def test_all_services_are_tried() -> None:
    assert {path.split("/")[1] for path, _ in METHODS} | {ADMIN} == set(NAMES)


@pytest.mark.parametrize(("path", "streams"), METHODS)
async def test_a_lockdown_refuses_the_methods_of_its_component(
    real: Served, path: str, streams: bool
) -> None:
    method = path.rpartition("/")[2]
    own = component_of(method)
    (other,) = {Component.READ, Component.WRITE} - {own}
    for _ in range(2):
        await real.engine.lockdown.lock(own)
        failure = await call(real, path, streams)
        assert failure is not None
        assert failure.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert failure.details() == (
            f"{method}: an operator has locked {own.value} calls of the job manager; "
            f"`peloton admin unlock {own.value}` allows them again"
        )
    await real.engine.lockdown.unlock(own)
    for component in Component:
        if component is not own:
            await real.engine.lockdown.lock(component)
    assert other in real.engine.lockdown.locked
    failure = await call(real, path, streams)
    assert failure is None or "an operator has locked" not in (failure.details() or "")
