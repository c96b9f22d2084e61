"""Launches on several hosts in one call, as jobmgr makes it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from jobmgr.clients.launch_calls import BYTES_PER_CALL, HOSTS_PER_CALL, LaunchCalls
from jobmgr.clients.launches import HostLaunch
from jobmgr.core.launch_answers import LaunchAnswer, LaunchResult
from peloton.api.v0.task import task_pb2
from peloton.calls.jobmgr import LAUNCH_ON_HOST, LAUNCH_TASKS
from peloton.errors import PelotonError, Refused, Unavailable, Unimplemented
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.launching import launching_pb2
from peloton.rpc.errors import InvalidRequest

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
CONFIG = task_pb2.TaskConfig(name="x").SerializeToString()
LAUNCHED = LaunchAnswer(LaunchResult.LAUNCHED)
Kind = launching_pb2.Outcome


def host(number: int, config: bytes = CONFIG) -> HostLaunch:
    wire = launching_pb2.HostLaunch(hostname=f"host{number}", agent_id="S1", host_offer_id=f"O{number}")
    wire.tasks.add(mesos_task_id=f"{JOB}-{number}-1", config=0, ports={"http": 31000})
    return HostLaunch(wire, [config])


class Hostmgr:
    """Answers calls: `outcomes` by hostname, RESULT_LAUNCHED for others, or raises the next of `failures`."""

    def __init__(self, *failures: PelotonError) -> None:
        self.failures = deque(failures)
        self.outcomes: dict[str, launching_pb2.Outcome] = {}
        self.faulty: set[str] = set()
        """A call with one of these hosts is refused as a whole."""
        self.older = False
        self.calls: list[Any] = []
        self.called = asyncio.Event()
        self.answering = asyncio.Event()
        self.answering.set()

    async def call(
        self, rpc: Any, request: Any, timeout: float = 1.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        assert not retry, "a launch is not made again by itself"
        if self.older and rpc == LAUNCH_TASKS:
            raise Unimplemented("no such method")
        self.calls.append(request)
        self.called.set()
        await self.answering.wait()
        if self.failures:
            raise self.failures.popleft()
        if rpc == LAUNCH_ON_HOST:
            return hostsvc_pb2.LaunchTasksResponse()
        assert rpc == LAUNCH_TASKS
        if any(each.hostname in self.faulty for each in request.hosts):
            raise InvalidRequest("a text is not UTF-8")
        launched = Kind(result=Kind.RESULT_LAUNCHED)
        return launching_pb2.LaunchTasksResponse(
            outcomes=[self.outcomes.get(each.hostname, launched) for each in request.hosts]
        )


async def launch_all(hostmgr: Hostmgr, *launches: HostLaunch) -> list[LaunchAnswer | BaseException]:
    calls = LaunchCalls(hostmgr)
    return await asyncio.gather(*map(calls.launch, launches), return_exceptions=True)


async def test_launches_of_one_moment_are_one_call_and_share_configs() -> None:
    hostmgr = Hostmgr()
    assert await launch_all(hostmgr, host(0), host(1), host(2, b"")) == [LAUNCHED] * 3
    (request,) = hostmgr.calls
    assert [each.hostname for each in request.hosts] == ["host0", "host1", "host2"]
    assert list(request.configs) == [CONFIG, b""]
    assert [list(each.configs) for each in request.hosts] == [[0], [0], [1]]


async def test_a_call_has_a_bounded_number_of_hosts_and_bytes() -> None:
    hostmgr = Hostmgr()
    answers = await launch_all(hostmgr, *map(host, range(2 * HOSTS_PER_CALL + 1)))
    assert answers == [LAUNCHED] * (2 * HOSTS_PER_CALL + 1)
    assert [len(each.hosts) for each in hostmgr.calls] == [HOSTS_PER_CALL, HOSTS_PER_CALL, 1]
    large = [host(number, bytes([number]) * (BYTES_PER_CALL // 2)) for number in range(5)]
    hostmgr = Hostmgr()
    await launch_all(hostmgr, *large)
    assert [len(each.hosts) for each in hostmgr.calls] == [2, 2, 1]


async def test_each_host_has_its_own_outcome() -> None:
    hostmgr = Hostmgr()
    hostmgr.outcomes = {
        "host1": Kind(result=Kind.RESULT_CLAIM_OVER, message="over"),
        "host2": Kind(result=Kind.RESULT_FAULTY, message="faulty"),
        "host3": Kind(result=Kind.RESULT_UNAVAILABLE, message="no connection"),
    }
    answers = await launch_all(hostmgr, *map(host, range(5)))
    assert answers[:3] == [
        LAUNCHED,
        LaunchAnswer(LaunchResult.CLAIM_OVER, "over"),
        LaunchAnswer(LaunchResult.FAULTY, "faulty"),
    ]
    assert isinstance(answers[3], Unavailable)
    assert answers[4] == LAUNCHED


async def test_a_host_for_which_a_whole_call_is_refused_spoils_no_other() -> None:
    hostmgr = Hostmgr()
    hostmgr.faulty = {"host1"}
    answers = await launch_all(hostmgr, *map(host, range(3)))
    assert answers == [LAUNCHED, LaunchAnswer(LaunchResult.FAULTY, "a text is not UTF-8"), LAUNCHED]
    assert [len(each.hosts) for each in hostmgr.calls] == [3, 1, 1, 1]


@pytest.mark.parametrize("failure", [Unavailable("gone"), PelotonError("unknown")])
async def test_a_call_with_unknown_outcome_is_so_for_all_its_launches(failure: PelotonError) -> None:
    answers = await launch_all(Hostmgr(failure), *map(host, range(3)))
    assert answers == [failure] * 3


async def test_a_refused_call_launches_nothing() -> None:
    answers = await launch_all(Hostmgr(Refused("no")), host(0), host(1))
    assert answers == [LaunchAnswer(LaunchResult.CLAIM_OVER, "no")] * 2


async def test_an_older_host_manager_gets_a_call_for_each_host() -> None:
    hostmgr = Hostmgr(Refused("invalid offers"), InvalidRequest("faulty"))
    hostmgr.older = True
    answers = await launch_all(hostmgr, *map(host, range(3)))
    assert answers == [
        LaunchAnswer(LaunchResult.CLAIM_OVER, "invalid offers"),
        LaunchAnswer(LaunchResult.FAULTY, "faulty"),
        LAUNCHED,
    ]
    request = hostmgr.calls[2]
    assert (request.hostname, request.agentId.value, request.id.value) == ("host2", "S1", "O2")
    (task,) = request.tasks
    assert (task.taskId.value, task.id.value, task.config.name) == (f"{JOB}-2-1", f"{JOB}-2", "x")
    assert dict(task.ports) == {"http": 31000}


async def test_an_answer_for_fewer_hosts_is_none() -> None:
    class Short(Hostmgr):
        async def call(self, *args: Any, **named: Any) -> Any:
            answer = await super().call(*args, **named)
            del answer.outcomes[1:]
            return answer

    answers = await launch_all(Short(), host(0), host(1))
    assert [type(each) for each in answers] == [Unavailable, Unavailable]


async def test_launches_go_on_where_the_one_that_makes_the_call_is_broken_off() -> None:
    hostmgr = Hostmgr()
    hostmgr.answering.clear()
    calls = LaunchCalls(hostmgr)
    first, second = (asyncio.ensure_future(calls.launch(host(number))) for number in range(2))
    await hostmgr.called.wait()
    first.cancel()
    with pytest.raises(Unavailable):  # of unknown outcome: it is repeated
        await second
    hostmgr.answering.set()
    assert await calls.launch(host(1)) == LAUNCHED
