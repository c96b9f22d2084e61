"""Random operations on the store and on plain dictionaries leave both with the same contents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.errors import AlreadyExists, NotFound, PelotonError
from peloton.model.job import JobQuery, JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import PodEvent, TaskRuntime
from storage.interface import Store
from tests.contract.storage.conftest import Backend, Opener
from tests.contract.storage.samples import event, job_id, job_runtime, spec, task_runtime

JOBS = [job_id(number) for number in range(3)]


@dataclass
class Model:
    """What the store must hold. Each method raises what the store must raise."""

    runtimes: dict[str, JobRuntime] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    tasks: dict[tuple[str, int], TaskRuntime] = field(default_factory=dict)
    events: set[PodEvent] = field(default_factory=set)

    def create(self, job: str, runtime: JobRuntime) -> None:
        if job in self.runtimes:
            raise AlreadyExists(job)
        self.runtimes[job] = runtime

    def write_runtime(self, job: str, runtime: JobRuntime) -> None:
        if job not in self.runtimes:
            raise NotFound(job)
        self.runtimes[job] = runtime

    def write_all(
        self, job: str, tasks: dict[int, TaskRuntime], events: list[PodEvent], runtime: JobRuntime | None
    ) -> None:
        if runtime is not None:
            self.write_runtime(job, runtime)
        self.tasks.update({(job, instance): row for instance, row in tasks.items()})
        self.events.update(events)

    def delete(self, job: str) -> None:
        self.runtimes.pop(job, None)
        self.retired.discard(job)
        self.tasks = {key: row for key, row in self.tasks.items() if key[0] != job}
        self.events = {one for one in self.events if one.job_id != job}

    def retire(self, job: str) -> None:
        if job in self.runtimes:
            self.retired.add(job)


Operation = tuple[Callable[[Store], Awaitable[None]], Callable[[Model], None]]

jobs = st.sampled_from(JOBS)
instances = st.integers(0, 3)
runtimes = st.builds(
    lambda state, revision: replace(job_runtime(state), revision=revision),
    st.sampled_from([JobState.RUNNING, JobState.KILLED]),
    st.integers(1, 3),
)
rows = st.dictionaries(
    instances, st.builds(task_runtime, st.integers(1, 3), st.sampled_from(TaskState)), max_size=3
)


def creating(job: str, runtime: JobRuntime) -> Operation:
    return lambda s: s.jobs.create(job, spec(), runtime), lambda m: m.create(job, runtime)


def writing_runtime(job: str, runtime: JobRuntime) -> Operation:
    return (
        lambda s: s.write_all(job, {}, (), runtime),
        lambda m: m.write_runtime(job, runtime),
    )


def writing_all(job: str, tasks: dict[int, TaskRuntime], runtime: JobRuntime | None) -> Operation:
    events = [event(job, instance, row.run, row.state) for instance, row in tasks.items()]
    return (
        lambda s: s.write_all(job, tasks, events, runtime),
        lambda m: m.write_all(job, tasks, events, runtime),
    )


def deleting(job: str) -> Operation:
    return lambda s: s.jobs.delete(job), lambda m: m.delete(job)


def retiring(job: str) -> Operation:
    return lambda s: s.jobs.retire(job), lambda m: m.retire(job)


operations = st.one_of(
    st.builds(creating, jobs, runtimes),
    st.builds(writing_runtime, jobs, runtimes),
    st.builds(writing_all, jobs, rows, st.none() | runtimes),
    st.builds(deleting, jobs),
    st.builds(retiring, jobs),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(operations, max_size=6), max_size=5))
def test_the_store_holds_what_a_dictionary_would(backend: Backend, rounds: list[list[Operation]]) -> None:
    """Operations of a round are submitted at once: they take effect in their order nonetheless."""
    asyncio.run(compare(backend.database(), rounds))


async def compare(open_handle: Opener, rounds: list[list[Operation]]) -> None:
    store = await open_handle()
    model = Model()
    for operations in rounds:
        expected = [outcome_of(operation, model) for _, operation in operations]
        outcomes = await asyncio.gather(
            *(operation(store) for operation, _ in operations), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == expected
    assert await contents(store) == model
    await store.close()


def outcome_of(operation: Callable[[Model], None], model: Model) -> type:
    try:
        operation(model)
    except PelotonError as error:
        return type(error)
    return type(None)


async def contents(store: Store) -> Model:
    page = await store.jobs.query(JobQuery(limit=100))
    active = set(await store.jobs.active())
    model = Model({job.job_id: job.runtime for job in page.jobs})
    model.retired = set(model.runtimes) - active
    for job in JOBS:
        async for some in store.tasks.list(job):
            model.tasks.update({(job, instance): row for instance, row in some.items()})
        for instance in range(4):
            model.events.update(await store.pod_events.list(job, instance))
    return model
