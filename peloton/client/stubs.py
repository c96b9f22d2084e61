"""What generated stubs take for a channel: it calls the leader of a role, and follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NoReturn
from weakref import WeakSet

import grpc

from peloton.client.following import Leader, Method, Target
from peloton.client.sync_async import ClientClosed, run


class BlockingChannel(grpc.Channel):
    """A blocking channel to a role, whose calls `Leader` repeats."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def unary_unary(self, method: str, *codecs: Any, **named: Any) -> Any:
        """Return a callable for a method with one answer."""
        return _Call(self._leader, Method("unary_unary", method, codecs, named))

    def unary_stream(self, method: str, *codecs: Any, **named: Any) -> Any:
        """Return a callable for a method that answers with a stream."""
        return _Stream(self._leader, Method("unary_stream", method, codecs, named))

    def stream_unary(self, method: str, *codecs: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{method}: no service of Peloton takes a stream")

    stream_stream = stream_unary

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("the channel to a leader changes with the leader")

    def unsubscribe(self, callback: Any) -> None:
        """Do nothing: there are no subscribers."""

    def close(self) -> None:
        """Close the channels to all leaders. Calls that are under way end."""
        for channel in self._leader.close():
            channel.close()

    def __enter__(self) -> BlockingChannel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Call:
    def __init__(self, leader: Leader, method: Method) -> None:
        self._leader = leader
        self._method = method

    def __call__(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        return run(self._leader.call(self._method, request, timeout, options))

    def future(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        """Begin a call that is not repeated."""
        seconds = self._leader.way.timeout if timeout is None else timeout
        target = run(self._leader.leader(seconds))
        call = self._method.on(target.channel(False))
        return call.future(request, timeout=seconds, **self._leader.filled(options))


class _Stream:
    def __init__(self, leader: Leader, method: Method) -> None:
        self._leader = leader
        self._method = method

    def __call__(self, request: Any, **options: Any) -> _Answers:
        return _Answers(self._leader, *run(self._leader.opened(self._method, request, options)))


class _Answers:
    """The answers of a stream; other attributes are those of gRPC's call."""

    def __init__(self, leader: Leader, target: Target, call: Any) -> None:
        self._leader = leader
        self._target = target
        self._call = call

    def __iter__(self) -> _Answers:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except grpc.RpcError as error:
            judged = run(self._leader.judged(error, self._target))
            if judged is error:
                raise
            raise judged from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


class AsyncChannel:
    """A channel of an asyncio loop to a role, whose calls `Leader` repeats."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        # gRPC finds a channel's streams by the frames of tasks, so only where a task awaits them itself.
        self._open: WeakSet[_AsyncAnswers] = WeakSet()

    def unary_unary(self, method: str, *codecs: Any, **named: Any) -> Any:
        """Return a callable for a method with one answer, which is awaited."""
        return _AsyncCall(self._leader, Method("unary_unary", method, codecs, named))

    def unary_stream(self, method: str, *codecs: Any, **named: Any) -> Any:
        """Return a callable for a method that answers with a stream, for `async for`."""
        found = Method("unary_stream", method, codecs, named)

        def begin(request: Any, **options: Any) -> _AsyncAnswers:
            answers = _AsyncAnswers(self._leader, found, request, options)
            self._open.add(answers)
            return answers

        return begin

    def stream_unary(self, method: str, *codecs: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{method}: no service of Peloton takes a stream")

    stream_stream = stream_unary

    async def close(self) -> None:
        """Close the channels to all leaders. Calls that are under way end."""
        channels = self._leader.close()
        for answers in list(self._open):
            answers.cancel()
        for channel in channels:
            await channel.close()


class _AsyncCall:
    def __init__(self, leader: Leader, method: Method) -> None:
        self._leader = leader
        self._method = method

    async def __call__(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        return await self._leader.call(self._method, request, timeout, options)


class _AsyncAnswers:
    """The answers of a stream, which is opened when the first one is awaited."""

    def __init__(self, leader: Leader, method: Method, request: Any, options: dict[str, Any]) -> None:
        self._leader = leader
        self._method = method
        self._request = request
        self._options = options
        self._target: Target | None = None
        self._call: Any = None
        self._answers: AsyncIterator[Any] | None = None
        self._cancelled = False

    def __aiter__(self) -> _AsyncAnswers:
        return self

    async def __anext__(self) -> Any:
        if self._answers is None:
            await self._open()
        assert self._answers is not None
        assert self._target is not None
        try:
            return await anext(self._answers)
        except grpc.RpcError as error:
            judged = await self._leader.judged(error, self._target)
            if judged is error:
                raise
            raise judged from error

    async def _open(self) -> None:
        self._target, self._call = await self._leader.opened(self._method, self._request, self._options)
        if self._cancelled:
            self._call.cancel()
            raise ClientClosed
        self._target.under_way.add(self._call)
        self._call.add_done_callback(self._target.under_way.discard)
        self._answers = self._leader.way.driver.answers(self._call)

    def cancel(self) -> None:
        """End the stream."""
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()
