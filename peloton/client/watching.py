"""Watches of pods and services that go on after a cut."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import grpc

from peloton.backoff import Backoff
from peloton.client.discovery import NoLeader
from peloton.client.failures import CODES, CallError, call_error

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
_OF_THE_MOMENT = (CODES.UNAVAILABLE, CODES.CANCELLED, CODES.ABORTED, CODES.DEADLINE_EXCEEDED)


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
    task_svc: Any
    stateless_svc: Any
    respool_svc: Any
    watch_svc: Any


class Watches:
    """Watches of a client. A generator that is closed ends its call."""

    def __init__(self, client: Stubs) -> None:
        self._client = client

    def watch_pods(self, job_id: str) -> Iterator[Event[Any]]:
        """Yield the pods of a job (PodSummary), then each change, without end.

        After a cut the watch goes on with what has changed meanwhile: the last state of each pod is never
        missed, states in between may be. Raises CallError where the job does not exist.
        """
        from peloton.api.v1alpha import peloton_pb2
        from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
        from peloton.api.v1alpha.watch import watch_pb2
        from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

        job = peloton_pb2.JobID(value=job_id)

        def listed() -> Iterator[Any]:
            for answer in self._client.stateless_svc.ListPods(stateless_svc_pb2.ListPodsRequest(job_id=job)):
                yield from answer.pods

        return _Watch(
            lambda: self._client.watch_svc.Watch(pb.WatchRequest(pod_filter=watch_pb2.PodFilter(job_id=job))),
            listed,
            lambda pod: str(pod.pod_name.value),
            lambda answer: (answer.pods, [name.value for name in answer.pods_not_found]),
        ).events()

    def watch_services(self) -> Iterator[Event[Any]]:
        """Yield all services (JobSummary), then each change, as `watch_pods` does."""
        from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
        from peloton.api.v1alpha.watch import watch_pb2
        from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

        def listed() -> Iterator[Any]:
            for answer in self._client.stateless_svc.ListJobs(stateless_svc_pb2.ListJobsRequest()):
                yield from answer.jobs

        every = watch_pb2.StatelessJobFilter()
        return _Watch(
            lambda: self._client.watch_svc.Watch(pb.WatchRequest(stateless_job_filter=every)),
            listed,
            lambda job: str(job.job_id.value),
            lambda answer: (answer.stateless_jobs, [job.value for job in answer.stateless_jobs_not_found]),
        ).events()


class _Watch:
    """One watch over its cuts, with what its consumer knows."""

    def __init__(
        self,
        open_stream: Callable[[], Any],
        listed: Callable[[], Iterator[Any]],
        key: Callable[[Any], str],
        held: Callable[[Any], tuple[Sequence[Any], Sequence[str]]],
    ) -> None:
        self._open = open_stream
        self._listed = listed
        self._key = key
        self._held = held
        self._known: dict[str, Any] = {}
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        self._id = ""

    def events(self) -> Iterator[Event[Any]]:
        while True:
            try:
                yield from self._once()
            except NoLeader:
                pass  # a leader will be elected: a watch has no deadline, and goes on then
            except grpc.RpcError as error:
                cancelled = error.details() == f"watch {self._id} is cancelled"
                if cancelled or error.code() not in _OF_THE_MOMENT:
                    raise call_error("peloton.api.v1alpha.watch.svc.WatchService/Watch", error) from error
            time.sleep(self._backoff.next())

    def _once(self) -> Iterator[Event[Any]]:
        """Watch until the stream is cut. It is open before the list is read, so that nothing is missed."""
        stream = self._open()
        try:
            self._id = next(stream).watch_id
            yield from self._sync()
            self._backoff.reset()
            for answer in stream:
                changed, gone = self._held(answer)
                for subject in changed:
                    yield from self._change(subject)
                for name in gone:
                    yield from self._forget(name)
        finally:
            stream.cancel()

    def _sync(self) -> Iterator[Event[Any]]:
        there = set()
        try:
            for subject in self._listed():
                there.add(self._key(subject))
                yield from self._change(subject)
        except grpc.RpcError as error:
            if error.code() is not CODES.NOT_FOUND or not self._known:
                raise
            for name in sorted(self._known):
                yield from self._forget(name)
            raise CallError(CODES.NOT_FOUND, str(error.details())) from error
        for name in sorted(set(self._known) - there):
            yield from self._forget(name)
        yield Event(EventKind.SYNCED)

    def _change(self, subject: Any) -> Iterator[Event[Any]]:
        name = self._key(subject)
        before = self._known.get(name)
        if before is not None:
            older = subject.status.revision.version < before.status.revision.version
            if older or subject == before:
                return  # a message that was on its way while the list was read
        self._known[name] = subject
        yield Event(EventKind.CHANGED, name, subject)

    def _forget(self, name: str) -> Iterator[Event[Any]]:
        if self._known.pop(name, None) is not None:
            yield Event(EventKind.GONE, name)
