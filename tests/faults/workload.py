"""Jobs of different shapes, from a seed, and the calls that the API acknowledged."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.client.discovery import DiscoveryError
from tests.faults.history import TERMINAL, Call, DaemonJob, Instance, Job, Workflow

PATIENCE = 90.0
"""Seconds until an unanswered call fails."""
TRY = 5.0
"""Seconds that one try of a call may take."""
LISTING = 60.0
"""The same of a list of 10,000 tasks, on a machine with other work."""
RETRIES = 10
"""maxFailures of jobs that may fail."""
NO_RETRIES = (0, 1)
"""maxFailures of jobs whose instances run once."""
ENDLESS = "sleep 100000"
FAILS = "exit 1"
"""Part of each command that fails by itself."""
Answered = Callable[[Callable[[], Any]], Any]
"""Repeats a call until it is answered; returns the answer."""


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """The API said no; what was asked is not in force."""

    story: str


class Api:
    """Calls that are repeated until they are answered, and a record of the answers."""

    def __init__(self, client: PelotonClient, pool: str) -> None:
        self._client = client
        self._pool = pool
        self.calls: list[Call] = []
        self.slowest = 0.0
        """Seconds that the slowest call took to be answered."""

    def config(
        self, command: str, instances: int, max_failures: int = RETRIES, **sla: Any
    ) -> job_pb2.JobConfig:
        return job_pb2.JobConfig(
            name="faults",
            instanceCount=instances,
            defaultConfig=task_pb2.TaskConfig(
                resource=task_pb2.ResourceConfig(cpuLimit=0.2, memLimitMb=32, diskLimitMb=8),
                command=mesos_pb2.CommandInfo(shell=True, value=command),
                restartPolicy=task_pb2.RestartPolicy(maxFailures=max_failures),
                killGracePeriodSeconds=1,
            ),
            respoolID=peloton_pb2.ResourcePoolID(value=self._pool),
            sla=job_pb2.SlaConfig(preemptible=True, **sla),
        )

    def create(self, config: job_pb2.JobConfig, job_id: str, instances: int = 0) -> None:
        """`instances`: how many it gets, where its config does not say."""
        request = job_pb2.CreateRequest(id=_id(job_id), config=config)
        answer = self.answered(lambda: self._client.job_svc.Create(request, timeout=TRY))
        if answer.HasField("error") and not answer.error.HasField("alreadyExists"):
            raise Refused(f"create: {answer.error}")
        task = config.defaultConfig
        self.calls.append(
            Call(
                "create",
                job_id,
                time.time(),
                instances or config.instanceCount,
                max_failures=task.restartPolicy.maxFailures,
                fails=FAILS in task.command.value,
            )
        )

    def grow(self, config: job_pb2.JobConfig, job_id: str, instances: int) -> None:
        """Add instances, where the job has not ended."""
        changed = job_pb2.JobConfig()
        changed.CopyFrom(config)
        changed.instanceCount = instances
        request = job_pb2.UpdateRequest(id=_id(job_id), config=changed)
        self._note("perhaps-update", job_id, instances)
        answer = self.answered(lambda: self._client.job_svc.Update(request, timeout=TRY))
        if answer.HasField("error"):
            raise Refused(f"update: {answer.error}")
        self._note("update", job_id, instances)

    def stop(self, job_id: str, instances: tuple[int, int] | None = None) -> None:
        """The whole job, or instances from … up to, without, …."""
        ranges = [task_pb2.InstanceRange(**{"from": instances[0], "to": instances[1]})] if instances else []
        request = task_pb2.StopRequest(jobId=_id(job_id), ranges=ranges)
        answer = self.answered(lambda: self._client.task_svc.Stop(request, timeout=TRY))
        if answer.HasField("error"):
            raise Refused(f"stop: {answer.error}")
        stopped = tuple(range(*instances)) if instances else None
        self.calls.append(Call("stop", job_id, time.time(), stopped=stopped))

    def state(self, job_id: str) -> job_pb2.RuntimeInfo:
        request = job_pb2.GetRequest(id=_id(job_id))
        runtime: job_pb2.RuntimeInfo = self.answered(
            lambda: self._client.job_svc.Get(request, timeout=TRY)
        ).jobInfo.runtime
        return runtime

    def ended(self, job_id: str) -> bool:
        """Return whether the job is known to have ended. False where no answer comes at once."""
        request = job_pb2.GetRequest(id=_id(job_id))
        try:
            answer = self._client.job_svc.Get(request, timeout=0.5)
        except (grpc.RpcError, DiscoveryError):
            return False
        return job_pb2.JobState.Name(answer.jobInfo.runtime.state) in TERMINAL

    def job(self, job_id: str) -> Job | None:
        """None for one that is not there."""
        get = job_pb2.GetRequest(id=_id(job_id))
        answer = self.answered(lambda: self._client.job_svc.Get(get, timeout=TRY))
        if answer.error.HasField("notFound"):
            return None
        listing = task_pb2.ListRequest(jobId=_id(job_id))
        tasks = self.answered(lambda: self._client.task_svc.List(listing, timeout=LISTING)).result.value
        runtime = answer.jobInfo.runtime
        return Job(
            job_pb2.JobState.Name(runtime.state),
            answer.jobInfo.config.instanceCount,
            dict(runtime.taskStats),
            {number: _instance(task.runtime) for number, task in tasks.items()},
        )

    def _note(self, method: str, job_id: str, instances: int) -> None:
        self.calls.append(Call(method, job_id, time.time(), instances))

    def answered(self, call: Callable[[], Any]) -> Any:
        """Raise Refused for a refusal, TimeoutError without an answer."""
        began = time.monotonic()
        while True:
            try:
                answer = call()
            except (grpc.RpcError, DiscoveryError) as error:
                if time.monotonic() - began > PATIENCE:
                    raise TimeoutError(f"nobody answered in {PATIENCE:g} s: {error}") from error
                time.sleep(0.2)
                continue
            self.slowest = max(self.slowest, time.monotonic() - began)
            return answer


def _id(job_id: str) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=job_id)


def _instance(runtime: task_pb2.RuntimeInfo) -> Instance:
    run = runtime.mesosTaskId.value.rpartition("-")[2]
    return Instance(task_pb2.TaskState.Name(runtime.state), int(run) if run else 0)


@dataclass(slots=True)
class Workload:
    """A round's jobs. `play` creates them, stops some and adds to some, over `seconds`."""

    api: Api
    random: random.Random
    folder: Path
    """For what tasks leave behind."""
    seconds: float
    ending: list[str] = field(default_factory=list)
    """Jobs that end."""
    staying: list[str] = field(default_factory=list)
    """Jobs that run until they are stopped."""
    workflows: list[Workflow] = field(default_factory=list)
    """Of services, which are among `staying` too."""
    daemons: list[DaemonJob] = field(default_factory=list)
    """Daemon jobs, which are among `staying` too."""
    deleted: list[str] = field(default_factory=list)
    """Services that were deleted; not among the others."""
    answers: list[str] = field(default_factory=list)
    """Answers to calls that no call may get."""
    troubles: list[str] = field(default_factory=list)
    _steps: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _further: list[threading.Thread] = field(default_factory=list)

    def begin(self) -> None:
        """Create the first jobs, then go on in a thread of its own."""
        self._plan()
        self._steps.sort(key=lambda step: step[0])
        while self._steps and self._steps[0][0] == 0:
            self._do(self._steps.pop(0)[1])
        self._thread = threading.Thread(target=self._play, name="workload", daemon=True)
        self._thread.start()

    def add(
        self,
        command: str,
        instances: int,
        begins: Callable[[str], None] = lambda job_id: None,
        max_failures: int = RETRIES,
    ) -> str:
        """A further job, created at this point; returns its id, perhaps before it is there. `begins` is
        called with it before anything else."""
        job_id, config = self._new(command, instances, max_failures)
        self.ending.append(job_id)
        begins(job_id)
        self._beside(lambda: self.api.create(config, job_id))
        return job_id

    def add_staying(self, instances: int) -> str:
        """Return the id of a further job that is to be created by other calls than the workload's own, has
        runs that fail, and stays until it is stopped."""
        job_id = self.new_id()
        self.api.calls.append(
            Call("create", job_id, time.time(), instances, max_failures=RETRIES, fails=True)
        )
        self.staying.append(job_id)
        return job_id

    def before_owners_change(self, moving: Collection[int], staying: Collection[int]) -> None:
        """Take that something is about to happen to the owner of some shards, and not to those of others."""

    def stop(self, job_id: str) -> None:
        """At this point. Returns perhaps before it is answered."""
        self._beside(lambda: self.api.stop(job_id))

    def runs(self, job_id: str) -> bool:
        """Whether all of the job's tasks do."""
        job = self.api.job(job_id)
        return job is not None and {each.state for each in job.instances.values()} == {"RUNNING"}

    def _beside(self, step: Callable[[], None]) -> None:
        """In a thread of its own, which `finish` waits for."""
        self._further.append(threading.Thread(target=self._do, args=(step,), name="further", daemon=True))
        self._further[-1].start()

    def finish(self) -> None:
        """Returns when everything has been asked and answered. Raises TimeoutError."""
        assert self._thread is not None
        threads = [self._thread, *self._further]
        for each in threads:
            each.join(self.seconds + 4 * PATIENCE)
        if any(each.is_alive() for each in threads) or self.troubles:
            raise TimeoutError(f"the workload: {self.troubles or 'goes on for ever'}")

    def _play(self) -> None:
        began = time.monotonic()
        for at, step in self._steps:
            time.sleep(max(began + at - time.monotonic(), 0))
            self._do(step)

    def _do(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Refused:
            return  # the job had ended before
        except TimeoutError as error:
            self.troubles.append(str(error))

    def _plan(self) -> None:
        draw = self.random.uniform
        self._job(0, self._nap(), self.random.randint(4, 8), self._failures())
        for _ in range(max(1, round(self.seconds / 4))):
            self._job(draw(0, self.seconds), self._nap(), self.random.randint(2, 6), self._failures())
        self._job(0, self._fails_once(self._nap()), self.random.randint(2, 4), RETRIES)
        self._job(draw(0, self.seconds / 2), f"sleep 0.2; {FAILS}", 2, self.random.choice(NO_RETRIES))
        gang = self.random.randint(2, 4)
        self._job(
            draw(0, self.seconds / 2), self._nap(), gang + 1, self._failures(), minimumRunningInstances=gang
        )
        self._job(0, ENDLESS, 2, self._failures(), ends=False)
        whole = self._job(0, ENDLESS, self.random.randint(2, 3), self._failures())
        self._at(draw(1, self.seconds), lambda: self.api.stop(whole[0]))
        part = self._job(0, ENDLESS, 3, self._failures(), ends=False)
        self._at(draw(1, self.seconds), lambda: self.api.stop(part[0], (0, 2)))
        grows = self._job(0, f"sleep {min(self.seconds, 12) / 2:.1f}", 2, self._failures())
        self._at(draw(0.5, min(self.seconds, 12) / 2), lambda: self.api.grow(grows[1], grows[0], 4))

    def _failures(self) -> int:
        """maxFailures of a job: most have no retries, since those show what should not have failed."""
        return self.random.choice((*NO_RETRIES, RETRIES))

    def _job(
        self, at: float, command: str, instances: int, max_failures: int, ends: bool = True, **sla: Any
    ) -> tuple[str, job_pb2.JobConfig]:
        job_id, config = self._new(command, instances, max_failures, **sla)
        (self.ending if ends else self.staying).append(job_id)
        self._at(at, lambda: self.api.create(config, job_id))
        return job_id, config

    def _new(
        self, command: str, instances: int, max_failures: int, **sla: Any
    ) -> tuple[str, job_pb2.JobConfig]:
        return self.new_id(), self.api.config(command, instances, max_failures, **sla)

    def new_id(self) -> str:
        """Return the id of a job that is to be created."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def _at(self, seconds: float, step: Callable[[], None]) -> None:
        self._steps.append((seconds, step))

    def _nap(self) -> str:
        return f"sleep {self.random.uniform(0.5, 2.5):.2f}"

    def _fails_once(self, then: str) -> str:
        mark = f'"{self.folder}/failed-$PELOTON_INSTANCE_ID"'
        return f"test -e {mark} || {{ touch {mark}; {FAILS}; }}; {then}"

    @property
    def jobs(self) -> list[str]:
        return [*self.ending, *self.staying]

    def rests(self) -> bool:
        """Whether everything that ends has ended, and everything that stays runs (or was stopped)."""
        if any(job_pb2.JobState.Name(self.api.state(job).state) not in TERMINAL for job in self.ending):
            return False
        staying = [self.api.job(job) for job in self.staying]
        wanted = TERMINAL | {"RUNNING"}
        return all(
            job is not None and all(each.state in wanted for each in job.instances.values())
            for job in staying
        )

    def story(self) -> str:
        """Describe what has not settled."""
        left = []
        for job_id in self.jobs:
            job = self.api.job(job_id)
            if job is None or job.state not in TERMINAL:
                left.append(f"{job_id}: {job}")
        return "; ".join(left)
