"""Watches of pods and services that go on after a cut."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

import grpc

from peloton.backoff import Backoff
from peloton.client.failures import CODES, CallError, call_error
from peloton.client.sync_async import ClientClosed, Driver
from peloton.config.agents import AgentAccess

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 0.5
_OF_THE_MOMENT = (CODES.UNAVAILABLE, CODES.CANCELLED, CODES.ABORTED, CODES.DEADLINE_EXCEEDED)


WATCH_CANCELLED = "peloton-watch-cancelled"
"""Key of the trailing metadata of a watch that was cancelled by its id."""


def _is_cancelled(error: grpc.RpcError) -> bool:
    sent: Any = error.trailing_metadata() or ()  # pairs, which the types of grpcio do not know
    return WATCH_CANCELLED in {key for key, _ in sent}


class EventKind(Enum):
    """What an event of a watch tells."""

    CHANGED = "changed"
    """A subject as it is now, also one that was there when the watch began."""
    GONE = "gone"
    """A subject that does not exist any more."""
    SYNCED = "synced"
    """The watcher knows all that is there: at the start, and again after each cut."""


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """An event; `subject` is set where it is CHANGED, `name` unless it is SYNCED."""

    kind: EventKind
    name: str = ""
    subject: T | None = None


class Stubs(Protocol):
    """The stubs of a client that the small layer calls."""

    job_svc: Any
    instance_svc: Any
    task_svc: Any
    stateless_svc: Any
    respool_svc: Any
    watch_svc: Any
    task_access_svc: Any
    timeout: float | None
    agents: AgentAccess
    of_task: bool


class AsyncWatches:
    """Watches of a client. A generator that is closed ends its call."""

    def __init__(self, client: Stubs, driver: Driver) -> None:
        self._client = client
        self._driver = driver

    def watch_pods(self, job_id: str) -> AsyncGenerator[Event[Any], None]:
        """Yield the pods of a job (PodSummary), then each change, without end.

        After a cut the watch goes on with what has changed meanwhile: the last state of each pod is never
        missed, states in between may be. Raises CallError where the job does not exist.
        """
        from peloton.api.v1alpha import peloton_pb2
        from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
        from peloton.api.v1alpha.watch import watch_pb2
        from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

        job = peloton_pb2.JobID(value=job_id)

        return _Watch(
            self._driver,
            lambda: self._client.watch_svc.Watch(pb.WatchRequest(pod_filter=watch_pb2.PodFilter(job_id=job))),
            lambda: self._client.stateless_svc.ListPods(stateless_svc_pb2.ListPodsRequest(job_id=job)),
            lambda answer: answer.pods,
            lambda pod: str(pod.pod_name.value),
            lambda answer: (answer.pods, [name.value for name in answer.pods_not_found]),
        ).events()

    def watch_services(self) -> AsyncGenerator[Event[Any], None]:
        """Yield all services (JobSummary), then each change, as `watch_pods` does."""
        from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
        from peloton.api.v1alpha.watch import watch_pb2
        from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

        every = watch_pb2.StatelessJobFilter()
        return _Watch(
            self._driver,
            lambda: self._client.watch_svc.Watch(pb.WatchRequest(stateless_job_filter=every)),
            lambda: self._client.stateless_svc.ListJobs(stateless_svc_pb2.ListJobsRequest()),
            lambda answer: answer.jobs,
            lambda job: str(job.job_id.value),
            lambda answer: (answer.stateless_jobs, [job.value for job in answer.stateless_jobs_not_found]),
        ).events()


class _Watch:
    """One watch over its cuts, with what its consumer knows."""

    def __init__(
        self,
        driver: Driver,
        open_stream: Callable[[], Any],
        open_list: Callable[[], Any],
        listed: Callable[[Any], Sequence[Any]],
        key: Callable[[Any], str],
        held: Callable[[Any], tuple[Sequence[Any], Sequence[str]]],
    ) -> None:
        self._driver = driver
        self._open = open_stream
        self._open_list = open_list
        self._listed = listed
        self._key = key
        self._held = held
        self._known: dict[str, Any] = {}
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)

    async def events(self) -> AsyncGenerator[Event[Any], None]:
        while True:
            try:
                async with aclosing(self._once()) as events:
                    async for event in events:
                        yield event
            except grpc.RpcError as error:
                ended = _is_cancelled(error) or isinstance(error, ClientClosed)
                if ended or error.code() not in _OF_THE_MOMENT:
                    raise call_error("peloton.api.v1alpha.watch.svc.WatchService/Watch", error) from error
            await self._driver.sleep(self._backoff.next())

    async def _once(self) -> AsyncGenerator[Event[Any], None]:
        """Watch until the stream is cut. It is open before the list is read, so that nothing is missed."""
        stream = self._open()
        began = False
        try:
            async for answer in self._driver.answers(stream):
                if not began:
                    began = True
                    async with aclosing(self._sync()) as events:
                        async for event in events:
                            yield event
                    self._backoff.reset()
                    continue
                changed, gone = self._held(answer)
                for found in chain(map(self._change, changed), map(self._forget, gone)):
                    if found is not None:
                        yield found
        finally:
            stream.cancel()

    async def _sync(self) -> AsyncGenerator[Event[Any], None]:
        """Yield what differs from what is known, by a list of what is there."""
        there = set()
        try:
            async for answer in self._driver.answers(self._open_list()):
                for subject in self._listed(answer):
                    there.add(self._key(subject))
                    if (changed := self._change(subject)) is not None:
                        yield changed
        except grpc.RpcError as error:
            if error.code() is not CODES.NOT_FOUND or not self._known:
                raise
            for gone in filter(None, map(self._forget, sorted(self._known))):
                yield gone
            raise CallError(CODES.NOT_FOUND, str(error.details())) from error
        for gone in filter(None, map(self._forget, sorted(set(self._known) - there))):
            yield gone
        yield Event(EventKind.SYNCED)

    def _change(self, subject: Any) -> Event[Any] | None:
        name = self._key(subject)
        before = self._known.get(name)
        if before is not None:
            older = subject.status.revision.version < before.status.revision.version
            if older or subject == before:
                return None  # a message that was on its way while the list was read
        self._known[name] = subject
        return Event(EventKind.CHANGED, name, subject)

    def _forget(self, name: str) -> Event[Any] | None:
        return Event(EventKind.GONE, name) if self._known.pop(name, None) is not None else None
