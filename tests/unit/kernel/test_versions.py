from __future__ import annotations

import asyncio

import pytest

from peloton import __version__
from peloton.calls.jobmgr import ENQUEUE_GANGS
from peloton.errors import Refused
from peloton.membership.interface import Address, Role
from peloton.model.versions import mismatch
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.rpc.caller import INSTANCE, VERSION, Terms, caller_of
from peloton.rpc.client import Channels, LeaderClient


@pytest.mark.parametrize(
    ("own", "other"),
    [
        *(("0.2.0", other) for other in ("0.2.0", "0.1.9", "", "main")),
        ("0.1.0", "0.2.0"),
        ("1.9.1", "1.10.0rc1"),
    ],
)
def test_neighbours_work_together(own: str, other: str) -> None:
    assert mismatch(own, other) == ""


@pytest.mark.parametrize(("own", "other"), [("0.3.0", "0.1.0"), ("1.0.0", "0.9.0"), ("0.2.0", "2.2.0")])
def test_others_do_not(own: str, other: str) -> None:
    assert f"version {other} does not work with version {own}" in mismatch(own, other)


def test_what_to_do_is_said_for_the_older_one_on_either_side() -> None:
    for own, other in (("0.4.0", "0.1.2"), ("0.1.2", "0.4.0")):
        said = mismatch(own, other)
        assert said.endswith("upgrade what runs 0.1.2 step by step, each minor version up to 0.4")


def test_a_daemon_that_is_too_old_is_refused_by_the_one_that_it_calls() -> None:
    old = caller_of([(INSTANCE, "jobmgr/1"), (VERSION, "9999.1.0")])
    with pytest.raises(Refused, match=f"jobmgr/1: version 9999.1.0 does not work with version {__version__}"):
        Terms().check(old)
    Terms().check(caller_of([(INSTANCE, "jobmgr/1")]))  # before 0.2 none was sent
    Terms().check(caller_of([(VERSION, "9999.1.0")]))  # users' programs call published interfaces


class _Leader:
    """A membership in which a leader of another version leads."""

    def leader(self, role: Role, cluster: str = "") -> Address | None:
        return Address("host", "127.0.0.1", 1, 2, "9999.1.0")


def test_a_leader_that_is_too_old_is_not_called() -> None:
    async def call() -> None:
        client = LeaderClient(_Leader(), Channels(None), Role.RESMGR, ((INSTANCE, "jobmgr/1"),))  # type: ignore[arg-type]
        await client.call(ENQUEUE_GANGS, resmgrsvc_pb2.EnqueueGangsRequest(), timeout=5)

    with pytest.raises(Refused, match=r"the resmgr at 127\.0\.0\.1:2: version 9999\.1\.0 does not work"):
        asyncio.run(call())
