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
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import grpc

T = TypeVar("T")
THREADS = 4
"""Threads of an asyncio client for what can only block: ZooKeeper, and reading from Mesos agents."""


class LocalError(grpc.RpcError):  # type: ignore[misc]
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

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return that the server sent nothing."""
        return ()


class ClientClosed(LocalError):
    """The client was closed before the call or during it."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.CANCELLED, "the client is closed")


class Driver(Protocol):
    """The ways in which the client waits."""

    async def sleep(self, seconds: float) -> None:
        """Pause."""

    async def call(self, method: Any, request: Any, options: dict[str, Any]) -> Any:
        """Make a call with one answer. Raises grpc.RpcError."""

    def answers(self, call: Any) -> AsyncIterator[Any]:
        """Return the answers of a stream; iterating raises grpc.RpcError."""

    async def blocking(self, work: Callable[[], T], abort: Callable[[], object] | None = None) -> T:
        """Return the result of what blocks; where the caller is cancelled meanwhile, abort it."""

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Return a lock among the users of one client."""

    async def close(self) -> None:
        """End what the driver has begun."""


class Blocking:
    """Blocks the thread."""

    async def sleep(self, seconds: float) -> None:
        """Pause."""
        time.sleep(seconds)  # noqa: ASYNC251

    async def call(self, method: Any, request: Any, options: dict[str, Any]) -> Any:
        """Make a call with one answer. Raises grpc.RpcError."""
        return method(request, **options)

    async def answers(self, call: Any) -> AsyncIterator[Any]:
        """Yield the answers of a stream. Raises grpc.RpcError."""
        for answer in call:
            yield answer

    async def blocking(self, work: Callable[[], T], abort: Callable[[], object] | None = None) -> T:
        """Return the result of what blocks."""
        return work()

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Return a lock among threads."""
        return _ThreadLock()

    async def close(self) -> None:
        """Do nothing: nothing goes on."""


class Asyncio:
    """Waits in the running loop. What can only block has threads of its own, which end with the client."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._running: set[Future[Any]] = set()

    async def sleep(self, seconds: float) -> None:
        """Pause."""
        await asyncio.sleep(seconds)

    async def call(self, method: Any, request: Any, options: dict[str, Any]) -> Any:
        """Make a call with one answer. Raises grpc.RpcError."""
        try:
            return await method(request, **options)
        except asyncio.CancelledError:
            raise_closed()
            raise

    async def answers(self, call: Any) -> AsyncIterator[Any]:
        """Yield the answers of a stream. Raises grpc.RpcError."""
        try:
            async for answer in call:
                yield answer
        except asyncio.CancelledError:
            raise_closed()
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

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Return a lock among tasks."""
        return asyncio.Lock()

    async def close(self) -> None:
        """Wait for the threads, and end them."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        executor.shutdown(wait=False, cancel_futures=True)
        left = [asyncio.wrap_future(future) for future in list(self._running) if not future.done()]
        await asyncio.gather(*left, return_exceptions=True)
        executor.shutdown()


def raise_closed() -> None:
    """Raise ClientClosed where the present task was not cancelled: its channel was closed."""
    task = asyncio.current_task()
    if task is not None and not task.cancelling():
        raise ClientClosed from None


class _ThreadLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


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
