"""How the client waits: blocking, or in an asyncio loop. What it does is written once, as coroutines.

The coroutines wait by a `Driver` only. Those of `Blocking` block, and so never suspend: `run` gets the result
of such a coroutine without a loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import grpc

from peloton.leaders import NOT_BEGUN

T = TypeVar("T")
THREADS = 4
"""Threads of an asyncio client for what can only block: ZooKeeper, and reading from Mesos agents."""


class LocalError(grpc.RpcError):
    """A call that the client itself ended, with the attributes of one that a server refused."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self._code = code
        self._details = details
        super().__init__(f"{code.name}: {details}")

    def code(self) -> grpc.StatusCode:
        """Return the status."""
        return self._code

    def details(self) -> str:
        """Return what happened."""
        return self._details

    def trailing_metadata(self) -> Any:  # pairs, which the types of grpcio do not know
        """Return that the server sent nothing."""
        return ()


class CallEnded(LocalError):
    """The client has ended the call: its channel was closed, or another server leads."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.CANCELLED, "the connection was given up")


class NotBegun(LocalError):
    """The channel was closed before the call was made."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.UNAVAILABLE, "the connection was given up before the call")

    def trailing_metadata(self) -> Any:  # pairs, which the types of grpcio do not know
        """Return what a server says that refuses a call before it begins."""
        return ((NOT_BEGUN, "1"),)


class ClientClosed(LocalError):
    """The client was closed before the call or during it."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.CANCELLED, "the client is closed")


class Lock(Protocol):
    """A lock that is waited for until a time."""

    async def acquire(self, seconds: float | None) -> bool:
        """Return whether the lock was free within `seconds`; None waits without end."""

    def release(self) -> None:
        """Give the lock to somebody else."""


class News(Protocol):
    """Something that happens once."""

    def set(self) -> None:
        """Say that it has happened."""

    async def wait(self, seconds: float) -> bool:
        """Return, after `seconds` at most, whether it has happened."""


class Driver(Protocol):
    """The ways in which the client waits."""

    async def sleep(self, seconds: float) -> None:
        """Pause."""

    async def call(
        self, method: Any, request: Any, options: dict[str, Any], under_way: set[Any] | None = None
    ) -> Any:
        """Make a call with one answer. Raises grpc.RpcError.

        It is in `under_way` meanwhile where the driver `cancels`.
        """

    def answers(self, call: Any) -> AsyncIterator[Any]:
        """Return the answers of a stream; iterating raises grpc.RpcError."""

    async def blocking(self, work: Callable[[], T], abort: Callable[[], object] | None = None) -> T:
        """Return the result of what blocks; where the caller is cancelled meanwhile, abort it."""

    def lock(self) -> Lock:
        """Return a lock among the users of one client."""

    cancels: bool
    """Whether another thread of control can cancel a call; else it ends with its channel only."""

    def news(self) -> News:
        """Return an event that users of the client wait for."""

    def entry(self) -> Callable[[Callable[[], object]], object]:
        """Return what lets another thread run something where the client runs."""

    def end(self, channel: Any) -> None:
        """Close a channel."""

    async def close(self) -> None:
        """End what the driver has begun."""


class Blocking:
    """Blocks the thread."""

    cancels = False

    async def sleep(self, seconds: float) -> None:
        """Pause."""
        time.sleep(seconds)  # noqa: ASYNC251

    async def call(
        self, method: Any, request: Any, options: dict[str, Any], under_way: set[Any] | None = None
    ) -> Any:
        """Make a call with one answer. Raises grpc.RpcError."""
        try:
            return method(request, **options)
        except ValueError as error:  # gRPC's, of a channel that was closed just before
            if "closed channel" not in str(error):
                raise
            raise NotBegun from None

    async def answers(self, call: Any) -> AsyncIterator[Any]:
        """Yield the answers of a stream. Raises grpc.RpcError."""
        for answer in call:
            yield answer

    async def blocking(self, work: Callable[[], T], abort: Callable[[], object] | None = None) -> T:
        """Return the result of what blocks."""
        return work()

    def lock(self) -> Lock:
        """Return a lock among threads."""
        return _ThreadLock()

    def news(self) -> News:
        """Return an event that threads wait for."""
        return _ThreadNews()

    def entry(self) -> Callable[[Callable[[], object]], object]:
        """Return what runs something in the thread that calls it."""
        return lambda work: work()

    def end(self, channel: Any) -> None:
        """Close a channel: its calls end."""
        channel.close()

    async def close(self) -> None:
        """Do nothing: nothing goes on."""


class Asyncio:
    """Waits in the running loop. What can only block has threads of its own, which end with the client."""

    cancels = True

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._running: set[Future[Any]] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def sleep(self, seconds: float) -> None:
        """Pause."""
        await asyncio.sleep(seconds)

    async def call(
        self, method: Any, request: Any, options: dict[str, Any], under_way: set[Any] | None = None
    ) -> Any:
        """Make a call with one answer; it is in `under_way` meanwhile. Raises grpc.RpcError."""
        call = method(request, **options)
        if under_way is not None:
            under_way.add(call)
        try:
            return await call
        except asyncio.CancelledError:
            raise_ended()
            raise
        finally:
            if under_way is not None:
                under_way.discard(call)

    async def answers(self, call: Any) -> AsyncIterator[Any]:
        """Yield the answers of a stream. Raises grpc.RpcError."""
        try:
            async for answer in call:
                yield answer
        except asyncio.CancelledError:
            raise_ended()
            raise

    async def blocking(self, work: Callable[[], T], abort: Callable[[], object] | None = None) -> T:
        """Return the result of what blocks, in a thread."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, "peloton-client")
        future = self._executor.submit(work)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if abort is not None:
                abort()
            raise

    def lock(self) -> Lock:
        """Return a lock among tasks."""
        return _TaskLock()

    def news(self) -> News:
        """Return an event that tasks wait for."""
        return _TaskNews()

    def entry(self) -> Callable[[Callable[[], object]], object]:
        """Return what runs something in the present loop, and nothing once that is closed."""
        loop = asyncio.get_running_loop()

        def run_there(work: Callable[[], object]) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(work)

        return run_there

    def end(self, channel: Any) -> None:
        """Close a channel after the calls that go on there."""
        task = asyncio.ensure_future(channel.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Wait for the threads, and end them."""
        await asyncio.gather(*self._ending)
        executor, self._executor = self._executor, None
        if executor is None:
            return
        executor.shutdown(wait=False, cancel_futures=True)
        left = [asyncio.wrap_future(future) for future in list(self._running) if not future.done()]
        await asyncio.gather(*left, return_exceptions=True)
        executor.shutdown()


def raise_ended() -> None:
    """Raise CallEnded where the present task was not cancelled: the client has ended the call."""
    task = asyncio.current_task()
    if task is not None and not task.cancelling():
        raise CallEnded from None


class _ThreadLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def acquire(self, seconds: float | None) -> bool:
        return self._lock.acquire(timeout=-1 if seconds is None else max(seconds, 0))

    def release(self) -> None:
        self._lock.release()


class _TaskLock:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def acquire(self, seconds: float | None) -> bool:
        try:
            return await asyncio.wait_for(self._lock.acquire(), seconds)
        except TimeoutError:
            return False

    def release(self) -> None:
        self._lock.release()


class _ThreadNews(threading.Event):
    async def wait(self, seconds: float) -> bool:  # type: ignore[override]
        return super().wait(seconds)


class _TaskNews(asyncio.Event):
    async def wait(self, seconds: float) -> bool:  # type: ignore[override]
        try:
            await asyncio.wait_for(super().wait(), seconds)
        except TimeoutError:
            return False
        return True


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that a `Blocking` driver drives."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a coroutine of a blocking client waits for a loop")


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of a generator that a `Blocking` driver drives; close it at the end."""
    try:
        while True:
            try:
                item = run(anext(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(items.aclose())
