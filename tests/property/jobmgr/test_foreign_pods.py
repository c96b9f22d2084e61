"""Pods of others come, are bound and go in any order: each has one job, and a gang is whole or waits."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.foreign.decide import NewJob, PodDecisions, PodJob, PodTask, decide
from peloton.model.foreign_pod import ForeignPod, may_be_of
from peloton.model.resources import Resources
from peloton.model.shard import shard_of

POOLS = {"/a": "pool-a", "/b": "pool-b"}
GANGS = (("", 0), ("g", 3), ("h", 2), ("group", 2))
ONE = Resources.of(cpu=1)
MOVES = ("make", "make", "make", "delete", "place", "end", "stop", "decide", "new leader")
Step = tuple[str, int]


class World:
    """A cluster's pods, the jobs that stand for them, and followers that may be replaced."""

    def __init__(self, managers: int) -> None:
        self.managers = managers
        self.pods: dict[str, ForeignPod] = {}
        self.jobs: dict[str, PodJob] = {}
        self.over: set[str] = set()
        """Ids of jobs that have ended: the store knows them."""
        self.ended: set[str] = set()
        """Those of which the present leader has learnt that."""
        self.of: dict[str, str] = {}
        """The job by which each pod was bound."""
        self.number = 0

    def step(self, move: str, pick: int) -> None:
        getattr(self, f"_{move.replace(' ', '_')}")(pick)

    def _make(self, pick: int) -> None:
        self.number += 1
        uid = f"{self.number:08x}-2fa1-41d2-883f-0016d3cca427"
        gang, size = GANGS[pick % len(GANGS)]
        pool = ("/a", "/b", "/a", "/nowhere")[pick // 3 % 4] if not gang else "/a"
        created = f"2026-01-01T00:00:{self.number // 4:02d}Z"
        self.pods[uid] = ForeignPod(
            "team", f"p{pick}", uid, created, pool, gang, size, resources=ONE, grows=gang == "group"
        )

    def _delete(self, pick: int) -> None:
        if self.pods:
            del self.pods[sorted(self.pods)[pick % len(self.pods)]]

    def _place(self, pick: int) -> None:
        """Place the waiting tasks of a job; those whose pods are gone fail, one may be refused for now."""
        waiting = [each for each in self.jobs.values() if any(task.waits for task in each.tasks)]
        if not waiting:
            return
        job = waiting[pick % len(waiting)]
        refused = job.tasks[-1] if pick % 3 == 0 and len(job.tasks) > 1 else None
        tasks = tuple(task if task is refused else replace(task, waits=False) for task in job.tasks)
        self.jobs[job.job_id] = replace(job, tasks=tasks)
        for before, task in zip(job.tasks, tasks, strict=True):
            pod = self.pods.get(task.uid)
            if before.waits and not task.waits and pod is not None and pod.waits:
                assert task.uid not in self.of, "no pod is bound twice"
                self.of[task.uid] = job.job_id
                self.pods[task.uid] = replace(pod, waits=False, bound=True)

    def _end(self, pick: int) -> None:
        running = [each.job_id for each in self.jobs.values() if not any(task.waits for task in each.tasks)]
        if running:
            self._finish(running[pick % len(running)])

    def _stop(self, pick: int) -> None:
        """Somebody stops a job by its id."""
        if self.jobs:
            self._finish(sorted(self.jobs)[pick % len(self.jobs)])

    def _finish(self, job_id: str) -> None:
        for task in self.jobs.pop(job_id).tasks:
            if task.uid in self.pods:
                self.pods[task.uid] = replace(self.pods[task.uid], bound=False)
        self.over.add(job_id)

    def _new_leader(self, pick: int) -> None:
        self.ended.clear()

    def decided(self) -> PodDecisions:
        """Return what the job managers decide, each about its own pods and jobs."""
        found = [self._decided_by(number) for number in range(self.managers)]
        return PodDecisions(
            *(
                tuple(each for one in found for each in getattr(one, kind))
                for kind in ("create", "stop", "tell")
            )
        )

    def _decided_by(self, number: int) -> PodDecisions:
        def own(job_id: str) -> bool:
            return shard_of(job_id, self.managers) == number

        items = [(uid, pod) for uid, pod in self.pods.items() if own(pod.home)]
        jobs = [job for job in self.jobs.values() if own(job.job_id)]
        found = decide(dict(items), jobs, POOLS, self.ended)
        random.Random(self.number).shuffle(items)
        other = decide(dict(items), jobs[::-1], POOLS, self.ended)
        assert set(other.create) == set(found.create), "the order of what is seen changes nothing"
        assert set(other.stop) == set(found.stop)
        assert all(own(new.job_id) for new in found.create), "who decides about pods owns their job"
        return found

    def _decide(self, pick: int) -> None:
        found = self.decided()
        for stop in found.stop:
            job = self.jobs[stop.job_id]
            begun = any(not task.waits for task in job.tasks)
            assert begun is (stop.instances is not None), "a gang that has not begun ends whole"
            if stop.instances is None:
                self._finish(stop.job_id)
                continue
            ended = [replace(t, waits=False) if i in stop.instances else t for i, t in enumerate(job.tasks)]
            self.jobs[stop.job_id] = replace(job, tasks=tuple(ended))
        for new in found.create:
            self._create(new)

    def _create(self, new: NewJob) -> None:
        assert new.job_id not in self.jobs, "no job is made twice"
        if new.job_id in self.over:
            self.ended.add(new.job_id)
            return
        first = new.pods[0]
        on_nodes = sum(pod.bound and pod.gang == first.gang for pod in self.pods.values())
        size = max(1, first.gang_size - (on_nodes if first.grows else 0))
        assert len(new.pods) == size, "a gang is whole"
        assert {each.gang for each in new.pods} == {first.gang}
        for each in new.pods:
            assert each.waits
            assert may_be_of(new.job_id, each.uid, each.namespace, each.gang)
        self.jobs[new.job_id] = PodJob(new.job_id, tuple(PodTask(each.uid, True) for each in new.pods))

    def check(self) -> None:
        queued = [task.uid for job in self.jobs.values() for task in job.tasks]
        assert len(queued) == len(set(queued)), "a pod is in one job at most"

    def settle(self) -> None:
        """After some rounds nothing more follows, and what can be queued is."""
        for _ in range(3):
            self._decide(0)
        found = self.decided()
        assert found.create == ()
        assert found.stop == ()
        queued = {task.uid for job in self.jobs.values() for task in job.tasks}
        waiting = {task.uid for job in self.jobs.values() for task in job.tasks if task.waits}
        assert all(uid in self.pods and self.pods[uid].waits for uid in waiting), "nothing waits in vain"
        told = {each.uid for each in found.tell}
        left = {uid for uid, pod in self.pods.items() if pod.waits} - queued
        assert left <= told, "who is not queued is told why"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 30)), max_size=60), st.sampled_from((1, 2, 4))
)
def test_each_pod_has_one_job_and_a_gang_is_whole(steps: list[Step], managers: int) -> None:
    world = World(managers)
    for move, pick in steps:
        world.step(move, pick)
        world.check()
    world.settle()
