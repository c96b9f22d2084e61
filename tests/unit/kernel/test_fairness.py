"""Limits of each principal and the order of calls, over a real gRPC server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import wrappers_pb2

from peloton.client.channel import open_aio_channel
from peloton.config.limits import (
    CallLimitSettings,
    MethodRate,
    PrincipalRateSettings,
    Rate,
    RateLimitSettings,
)
from peloton.errors import ResourceExhausted
from peloton.identity.principal import Kind, Principal, enter
from peloton.rpc.fairness import Fairness, principal_of
from peloton.rpc.intake import Intake
from peloton.rpc.limits import PrincipalRates
from peloton.rpc.server import RpcServer, Service
from tests.waiting import until

JOBS = "peloton.api.v0.job.JobManager"
WATCHES = "peloton.api.v1alpha.watch.svc.WatchService"
RESMGR = "peloton.private.resmgr.ResourceManagerService"
GET, WATCH = f"/{JOBS}/Get", f"/{WATCHES}/Watch"
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
DEADLINE = 60.0


class Methods:
    """Calls whose end the test decides, in the order in which they began."""

    port = 0

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.changed = asyncio.Event()
        self.gate = asyncio.Event()
        self.ends: dict[bytes, asyncio.Event] = {}

    async def call(self, request: bytes, context: Any) -> bytes:
        self.begun.append(request)
        self.changed.set()
        if not self.gate.is_set():
            await self.ends.setdefault(request, asyncio.Event()).wait()
        return request

    async def private(self, request: Any, context: Any) -> bytes:
        return await self.call(request.value, context)

    async def stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.begun.append(request)
        self.changed.set()
        yield request
        await self.gate.wait()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE):
            while len(self.begun) < count:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def serving(
    limits: CallLimitSettings,
    rates: RateLimitSettings | None = None,
    asks: bool = True,
    fairness: Fairness | None = None,
) -> AsyncIterator[tuple[Methods, grpc.aio.Channel, Fairness]]:
    methods = Methods()
    fairness = fairness or Fairness(limits, None if rates is None else PrincipalRates(rates), asks)
    server = RpcServer(lambda: "nobody leads", fairness=fairness, connection_streams=100)
    plain = grpc.unary_unary_rpc_method_handler(methods.call, bytes, bytes)
    streaming = grpc.unary_stream_rpc_method_handler(methods.stream, bytes, bytes)
    private = grpc.unary_unary_rpc_method_handler(
        methods.private, lambda raw: wrappers_pb2.BytesValue(value=raw), bytes
    )
    server.activate(
        [
            Service((JOBS,), {"Get": plain, "Create": plain}),
            Service((WATCHES,), {"Watch": streaming}),
            Service((RESMGR,), {"EnqueueGangs": private}),
        ]
    )
    methods.port = await server.start("127.0.0.1", 0)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{methods.port}") as channel:
            yield methods, channel, fairness
    finally:
        await server.stop(0)


def calling(channel: Any, request: bytes, caller: str, path: str = GET) -> Any:
    return channel.unary_unary(path, bytes, bytes)(
        request, metadata=(("rpc-caller", caller),), timeout=DEADLINE
    )


async def refused(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is EXHAUSTED
    return str(caught.value.details())


async def waits(fairness: Fairness, count: int) -> None:
    await until(lambda: fairness.queue.waiting == count)


async def test_principals_take_turns() -> None:
    limits = CallLimitSettings(running=2, principal_running=3)
    async with serving(limits) as (methods, channel, fairness):
        names = [b"a1", b"a2", b"a3", b"a4", b"a5", b"b1", b"b2", b"b3"]
        begin_at_once = {b"a1": 1, b"a2": 2, b"a3": 3, b"b1": 4}  # a1 and b1 in their own places
        wait = {b"a4": 1, b"a5": 2, b"b2": 3, b"b3": 4}
        calls = []
        for name in names:
            calls.append(calling(channel, name, name[:1].decode()))
            if name in begin_at_once:
                await methods.until(begin_at_once[name])
            else:
                await waits(fairness, wait[name])
        for number, ended in enumerate((b"a1", b"a2", b"b2", b"a3"), 5):
            methods.ends[ended].set()
            await methods.until(number)
        assert methods.begun == [b"a1", b"a2", b"a3", b"b1", b"a4", b"b2", b"a5", b"b3"]
        methods.gate.set()
        for end in methods.ends.values():
            end.set()
        assert await asyncio.gather(*calls) == names
        assert fairness.queue.principals() == 0


async def test_who_waits_for_longer_than_its_deadline_is_forgotten() -> None:
    limits = CallLimitSettings(running=1, principal_running=1)
    async with serving(limits) as (methods, channel, fairness):
        first = calling(channel, b"1", "a")
        await methods.until(1)
        second = calling(channel, b"2", "a")
        await waits(fairness, 1)
        second.cancel()
        await waits(fairness, 0)
        third = calling(channel, b"3", "a")
        await waits(fairness, 1)
        methods.ends[b"1"].set()
        await methods.until(2)
        methods.ends[b"3"].set()
        assert (await first, await third) == (b"1", b"3")
        assert methods.begun == [b"1", b"3"]


async def test_too_many_that_wait_are_refused_with_the_limit_and_when_to_try_again() -> None:
    limits = CallLimitSettings(running=1, principal_running=1, principal_waiting=1)
    async with serving(limits) as (methods, channel, fairness):
        calls = [calling(channel, b"1", "a")]
        await methods.until(1)
        calls.append(calling(channel, b"2", "a"))
        await waits(fairness, 1)
        assert await refused(calling(channel, b"3", "a")) == (
            "a at 127.0.0.1: too many calls wait already (call_limits.principal_waiting: 1): try again in 1 s"
        )
        assert methods.begun == [b"1"]
        methods.gate.set()
        other = calling(channel, b"4", "b")
        assert await other == b"4"
        methods.ends[b"1"].set()
        assert await asyncio.gather(*calls) == [b"1", b"2"]


async def test_large_requests_are_bounded_by_principal() -> None:
    limits = CallLimitSettings(principal_bytes=1000)
    async with serving(limits) as (methods, channel, _):
        large = calling(channel, b"x" * 5000, "a")
        await methods.until(1)
        assert await refused(calling(channel, b"y", "a")) == (
            "a at 127.0.0.1: the requests that are served or wait are too large together "
            "(call_limits.principal_bytes: 1000): try again in 1 s"
        )
        small = calling(channel, b"z" * 900, "b")
        await methods.until(2)
        methods.ends[b"x" * 5000].set()
        methods.ends[b"z" * 900].set()
        await asyncio.gather(large, small)


async def test_streams_are_bounded_by_principal_and_take_no_place() -> None:
    limits = CallLimitSettings(running=1, principal_running=1, principal_streams=2)
    async with serving(limits) as (methods, channel, fairness):

        def watch(caller: str) -> Any:
            return channel.unary_stream(WATCH, bytes, bytes)(b"", metadata=(("rpc-caller", caller),))

        open_ones = [watch("a"), watch("a"), watch("b")]
        for each in open_ones:
            assert await each.read() == b""
        assert await refused(watch("a").read()) == (
            "a at 127.0.0.1: streams are open already (call_limits.principal_streams: 2): "
            "try again when one has ended"
        )
        open_ones[0].cancel()
        async with asyncio.timeout(DEADLINE):
            while True:
                again = watch("a")
                try:
                    assert await again.read() == b""
                    break
                except grpc.aio.AioRpcError as error:
                    assert error.code() is EXHAUSTED
        methods.gate.set()
        assert await calling(channel, b"1", "a") == b"1"
        for each in (*open_ones, again):
            each.cancel()
        await until(lambda: not len(fairness.streams))


async def test_rates_are_each_principals_own() -> None:
    rates = RateLimitSettings(
        principal=PrincipalRateSettings(
            methods=(MethodRate(methods="*:Create", rate=0, burst=1),),
            default=Rate(rate=0.01, burst=2),
        )
    )
    async with serving(CallLimitSettings(), rates) as (methods, channel, _):
        methods.gate.set()
        create = f"/{JOBS}/Create"
        for caller in "ab":
            assert [await calling(channel, b"", caller) for _ in range(2)] == [b"", b""]
            assert await calling(channel, b"", caller, create) == b""
            said = await refused(calling(channel, b"", caller))
            assert said.startswith(
                f"{caller} at 127.0.0.1: {JOBS}/Get: more than 0.01 calls a second, 2 at once "
                "(rate_limit.principal.default): try again in "
            )
            assert await refused(calling(channel, b"", caller, create)) == (
                f"{caller} at 127.0.0.1: {JOBS}/Create: more than 0 calls a second, 1 at once "
                "(rate_limit.principal.methods: *:Create): try again after the setting has been changed"
            )
        assert len(methods.begun) == 6


async def test_what_only_daemons_call_is_not_limited() -> None:
    limits = CallLimitSettings(running=1, principal_running=1, principal_waiting=0)
    async with serving(limits) as (methods, channel, _):
        path = f"/{RESMGR}/EnqueueGangs"
        calls = [calling(channel, str(each).encode(), "a", path) for each in range(5)]
        await methods.until(5)
        for end in methods.ends.values():
            end.set()
        await asyncio.gather(*calls)


class Context:
    def __init__(self, peer: str, *metadata: tuple[str, str | bytes]) -> None:
        self.peer, self.invocation_metadata = (lambda: peer), (lambda: metadata)


@pytest.mark.parametrize(
    ("peer", "caller", "principal", "named"),
    [
        ("ipv4:10.1.2.3:4711", "spark", None, "spark at 10.1.2.3"),
        ("ipv6:[::1]:4711", "", None, "a caller at [::1]"),
        ("unix:/run/x", "spark", None, "spark at unix"),
        ("ipv4:10.1.2.3:4711", "x" * 500, None, "x" * 200 + " at 10.1.2.3"),
        ("ipv4:10.1.2.3:4711", "spark", Principal("ann", Kind.USER), "user ann"),
        ("ipv4:10.1.2.3:4711", "spark", Principal("", Kind.USER), "spark at 10.1.2.3"),
        ("ipv4:10.1.2.3:4711", "spark", Principal("jobmgr/1", Kind.DAEMON), ""),
    ],
)
async def test_whose_call_it_is(peer: str, caller: str, principal: Principal | None, named: str) -> None:
    if principal is not None:
        enter(principal)
    assert principal_of(Context(peer, ("rpc-caller", caller))) == named


def test_more_streams_are_open_where_nobody_is_asked() -> None:
    for asks, most in ((True, 500), (False, 1000)):
        streams = Fairness(CallLimitSettings(), None, asks).streams
        assert [streams.take("a") for _ in range(most)] == [None] * most
        refusal = streams.take("a")
        assert refusal is not None and (refusal.limit, refusal.value) == ("principal_streams", most)


def test_rates_of_principals_are_only_asked_where_there_are_any() -> None:
    assert not PrincipalRates.needed(RateLimitSettings(default=Rate(rate=1)))
    assert PrincipalRates.needed(RateLimitSettings(principal=PrincipalRateSettings(default=Rate(rate=1))))
    rates = PrincipalRates(
        RateLimitSettings(principal=PrincipalRateSettings(default=Rate(rate=1, burst=1))), lambda: 0.0
    )
    rates.take("a", GET)
    with pytest.raises(ResourceExhausted, match="try again in 1 s"):
        rates.take("a", GET)
    rates.take("b", GET)


async def test_a_connection_that_keeps_to_its_bound_is_never_refused() -> None:
    """gRPC would refuse streams of a busy connection while those that have ended are not yet freed."""
    async with serving(CallLimitSettings(running=100, principal_running=100)) as (methods, channel, _):
        methods.gate.set()

        async def calls(name: bytes) -> None:
            for _ in range(30):
                await calling(channel, name, "a")

        await asyncio.gather(*(calls(b"%d" % number) for number in range(300)))
        assert len(methods.begun) == 9000


async def test_each_client_has_a_connection_of_its_own() -> None:
    methods = Methods()
    server = RpcServer(lambda: "nobody leads", connection_streams=2)
    plain = grpc.unary_unary_rpc_method_handler(methods.call, bytes, bytes)
    streaming = grpc.unary_stream_rpc_method_handler(methods.stream, bytes, bytes)
    server.activate([Service((JOBS,), {"Get": plain}), Service((WATCHES,), {"Watch": streaming})])
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    try:
        async with open_aio_channel(address) as full, open_aio_channel(address) as other:
            watches = [full.unary_stream(WATCH, bytes, bytes)(b"w", timeout=DEADLINE) for _ in range(2)]
            await methods.until(2)
            methods.ends[b"g"] = asyncio.Event()
            methods.ends[b"g"].set()
            assert await other.unary_unary(GET, bytes, bytes)(b"g", timeout=60) == b"g"
            for watch in watches:
                watch.cancel()
    finally:
        await server.stop(0)


class Behind(Intake):
    """New calls that wait inside gRPC for as long as the test says."""

    seconds = 1.0

    def delay(self, now: float) -> float:
        return self.seconds


async def test_calls_over_many_connections_pause_while_new_ones_wait_inside_grpc() -> None:
    intake = Behind()
    paused = Fairness(CallLimitSettings(), clock=lambda: 0.0, intake=intake)  # no pause ends by itself
    async with serving(CallLimitSettings(), fairness=paused) as (methods, channel, _):
        methods.gate.set()
        options = (("grpc.use_local_subchannel_pool", 1),)
        target = f"127.0.0.1:{methods.port}"
        channels = [grpc.aio.insecure_channel(target, options=options) for _ in range(40)]
        names = [str(number).encode() for number in range(40)]
        calls = [
            asyncio.create_task(answered(each, name)) for each, name in zip(channels, names, strict=True)
        ]
        await until(lambda: paused.queue.running >= 20)
        assert await calling(channel, b"other", "b") == b"other"  # whose only connection this is
        assert not all(call.done() for call in calls)
        calls[-1].cancel()
        intake.seconds = 0.0
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found[:-1] == names[:-1]
        await until(lambda: paused.queue.principals() == 0)
        for each in channels:
            await each.close()


async def answered(channel: Any, name: bytes) -> Any:
    return await calling(channel, name, "a")
