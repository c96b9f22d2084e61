"""Dask on a real cluster: workers are instances of a job, which are lost, replaced and given back."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minicluster.credentials import make_credentials
from minicluster.layout import Layout
from minicluster.settings import DaemonSettings
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.cluster.conftest import Harness, harness_of, wait_for
from tests.cluster.test_maintenance import DOWN, await_all_up, await_state, complete
from tests.cluster.test_preemption import borrower

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "host-dask" / "bin" / "python"
PROGRAM = ROOT / "tests" / "workloads" / "programs" / "dask_work.py"
SECONDS = 120.0
LIVE = {job_pb2.INITIALIZED, job_pb2.PENDING, job_pb2.RUNNING, job_pb2.KILLING}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    quick = {"preemption": {"period": 0.5, "strikes": 2}}
    with harness_of(tmp_path_factory, settings=DaemonSettings(resmgr=quick)) as held:
        yield held


@pytest.fixture
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster that asks who calls."""
    with harness_of(tmp_path_factory, secure=True, isolation="none") as held:
        yield held


class Program:
    """A program in the environment of Dask, whose lines the test waits for."""

    def __init__(self, harness: Harness, *words: str) -> None:
        config = str(harness.cluster.directory.parent / "dask")  # else Dask writes to the user's
        environment = {**os.environ, **harness.cluster.urls(), "PYTHONUNBUFFERED": "1", "DASK_CONFIG": config}
        environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [str(PYTHON), str(PROGRAM), *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.told: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")

    def expect(self, beginning: str) -> list[str]:
        """Wait for a line that begins like this; return its words."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                line = self._lines.get(timeout=1)
            except queue.Empty:
                continue
            self.told.append(line)
            if line.startswith(f"{beginning} ") or line == beginning:
                return line.split()
            if not line and self.process.poll() is not None:
                break
        raise AssertionError(f"no line {beginning!r}:\n" + "\n".join(self.told[-60:]))

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        while not self._lines.empty():
            self.told.append(self._lines.get())
        return code


@contextmanager
def program(harness: Harness, *words: str) -> Iterator[Program]:
    """A program that must succeed, and leave nothing on the cluster."""
    run = started(harness, *words)
    try:
        yield run
        assert run.end() == 0, "\n".join(run.told[-60:])
        assert not live_jobs(harness)
        assert not workers_here()
        own = [line for line in run.told if "never retrieved" in line or "dask_peloton/" in line]
        assert not own, "\n".join(run.told[-60:])
    finally:
        clean(harness, run)


def started(harness: Harness, *words: str) -> Program:
    assert not live_jobs(harness)
    return Program(harness, *words)


def clean(harness: Harness, run: Program) -> None:
    """Leave nothing to the next test, also where this one has failed."""
    kill(run)
    for job in live_jobs(harness):
        peloton(harness, "job", "stop", job)
    wait_for(lambda: not live_jobs(harness), SECONDS)


def kill(run: Program) -> None:
    if run.process.poll() is None:
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.wait(SECONDS)


def live_jobs(harness: Harness) -> list[str]:
    request = job_pb2.QueryRequest(spec=job_pb2.QuerySpec(jobStates=sorted(LIVE)))
    return [job.id.value for job in harness.client.job_svc.Query(request).results]


def workers_here() -> list[int]:
    """The processes of workers on this machine, which the agents of the cluster run on."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if b"distributed.cli.dask_worker" in command and str(PYTHON).encode() in command:
            found.append(int(folder.name))
    return found


def peloton(harness: Harness, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "peloton.cli", *words],
        env={**os.environ, **harness.cluster.urls(), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def host_of(harness: Harness, job: str, instance: int) -> str:
    return harness.tasks(job)[instance].runtime.host


def test_computes_what_one_process_does(harness: Harness) -> None:
    with program(harness, "compute") as run:
        _, job, *first = run.expect("workers")
        assert first == ["0", "1"]
        run.expect("equal")
        assert run.expect("workers") == ["workers", job, "0", "1", "2"]
        assert "Starting Worker plugin" in peloton(harness, "logs", f"{job}-0")
        assert run.expect("again") == ["again", "True", "{}"]
        assert run.expect("closed") == ["closed", "closed"]


def test_computes_with_asyncio(harness: Harness) -> None:
    with program(harness, "compute_async") as run:
        run.expect("workers")
        assert run.expect("sum") == ["sum", "4950"]
        assert run.expect("closed") == ["closed", "closed"]


def test_grows_and_shrinks_with_the_work(harness: Harness) -> None:
    with program(harness, "adaptive") as run:
        assert len(run.expect("grown")) == 5
        assert run.expect("shrunk") == ["shrunk", "True"]


def test_the_result_is_right_though_workers_are_killed(harness: Harness) -> None:
    with program(harness, "killed") as run:
        for _ in range(6):
            run.expect("kill")
        assert run.expect("sum") == ["sum", str(sum(range(400)))]
        assert run.expect("workers") == ["workers", "0", "1", "2"]


def test_a_worker_that_somebody_stops_is_replaced(harness: Harness) -> None:
    with program(harness, "watched") as run:
        _, job, *_ = run.expect("workers")
        peloton(harness, "task", "stop", job, "-r", "0:1")
        run.tell()
        assert run.expect("now") in (["now", "0", "1"], ["now", "1", "2"])
        run.tell()


def test_workers_go_on_elsewhere_when_their_agent_ends(harness: Harness) -> None:
    with program(harness, "watched") as run:
        _, job, *_ = run.expect("workers")
        host = host_of(harness, job, 0)
        agent = host.removeprefix("peloton-")
        run.tell()
        harness.cluster.stop([agent])
        try:
            assert run.expect("now") == ["now", "0", "1"]
            assert host_of(harness, job, 0) != host
        finally:
            harness.cluster.start([agent])
        run.tell()


def test_workers_go_on_elsewhere_when_their_host_is_drained(harness: Harness) -> None:
    with program(harness, "watched") as run:
        _, job, *_ = run.expect("workers")
        host = host_of(harness, job, 0)
        run.tell()
        peloton(harness, "host", "maintenance", "start", host)
        try:
            assert run.expect("now") == ["now", "0", "1"]
            assert host_of(harness, job, 0) != host
        finally:
            await_state(harness, host, DOWN)
            complete(harness, host)
        run.tell()


def test_workers_that_another_pool_preempts_come_back_under_their_names(harness: Harness) -> None:
    await_all_up(harness)
    borrower(harness)
    with program(harness, "borrowed") as run:
        _, job = run.expect("workers")
        config = harness.config("exec sleep 600", 2)
        config.defaultConfig.resource.cpuLimit = 4
        lender = harness.create(config)
        [kept] = run.expect("left")[1:]
        again = {number for number, task in harness.tasks(job).items() if number != int(kept)}
        harness.running(lender)
        for number in again:
            events = peloton(harness, "task", "events", job, str(number))
            assert "preempted: /borrower was over its entitlement" in events, events
        peloton(harness, "job", "stop", lender)
        assert run.expect("back") == ["back", "0", "1", "2"]
        assert run.expect("sum") == ["sum", str(sum(range(600)))]


def test_computes_on_a_cluster_that_asks_who_calls(secured: Harness) -> None:
    with program(secured, "compute") as run:
        run.expect("workers")
        assert run.expect("equal") == ["equal"]
        assert run.expect("again")[:2] == ["again", "True"]
    assert "BASIC_AUTH_CONFIG" in secured.cluster.urls()


def test_a_cluster_whose_job_is_stopped_says_so(harness: Harness) -> None:
    with program(harness, "lost") as run:
        _, job = run.expect("workers")
        peloton(harness, "job", "stop", job)
        assert f"job {job} was stopped by somebody else" in " ".join(run.expect("lost"))
        assert f"job {job} was stopped by somebody else" in " ".join(run.expect("scale"))
        assert run.expect("closed") == ["closed", "closed"]


def test_workers_that_cannot_start_are_told(harness: Harness) -> None:
    with program(harness, "broken") as run:
        _, job = run.expect("workers")
        text = " ".join(run.expect("lost"))
        assert "has not reached the scheduler at tcp://127.0.0.1:" in text
        assert "FAILED: Command exited with status 1" in text
        assert f"peloton logs {job}-" in text
        assert "listens on 127.0.0.1 only" in text


def test_what_is_wrong_is_refused(harness: Harness) -> None:
    with program(harness, "refused") as run:
        assert "/nowhere" in " ".join(run.expect("RuntimeError"))
        assert "defaultConfg" in " ".join(run.expect("SpecError"))
        assert "memory: 'much' is not an amount" in " ".join(run.expect("ValueError"))
        assert "core: no settings of a cluster" in " ".join(run.expect("TypeError"))


@pytest.mark.parametrize("how", ["interrupt", "exception"])
def test_a_program_that_ends_early_leaves_nothing(harness: Harness, how: str) -> None:
    run = started(harness, "working", *(["raise"] if how == "exception" else []))
    try:
        _, job = run.expect("workers")
        if how == "interrupt":
            run.process.send_signal(signal.SIGINT)
        assert run.end() != 0
        assert not live_jobs(harness)
        assert not workers_here()
        assert harness.runtime(job).state in (job_pb2.KILLED, job_pb2.SUCCEEDED)
    finally:
        clean(harness, run)


def test_workers_end_when_the_program_is_killed(harness: Harness) -> None:
    run = started(harness, "working")
    try:
        _, job = run.expect("workers")
        kill(run)
        harness.ended(job)
        wait_for(lambda: not workers_here(), 30)
    finally:
        clean(harness, run)


def test_a_thousand_workers_are_wanted_by_few_calls(harness: Harness) -> None:
    with program(harness, "many") as run:
        _, job = run.expect("workers")
        before = versions(harness, job)
        run.tell()
        run.expect("added")
        assert versions(harness, job) == before + 1
        assert len(run.expect("reason")) > 2
        run.expect("released")
        wait_for(lambda: len(live_tasks(harness, job)) <= 1, 60)
    assert any("workers wait: PENDING" in line for line in run.told)


def live_tasks(harness: Harness, job: str) -> list[int]:
    ended = {task_pb2.SUCCEEDED, task_pb2.FAILED, task_pb2.KILLED}
    return [number for number, task in harness.tasks(job).items() if task.runtime.state not in ended]


def versions(harness: Harness, job: str) -> int:
    """How many configs the job has had: one for each update."""
    return int(harness.runtime(job).configurationVersion)


def test_connections_are_encrypted(harness: Harness, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.conf.mkdir(parents=True)
    make_credentials(layout)
    certificate, key = layout.certificate_of("client")
    with program(harness, "encrypted", str(layout.authority), str(certificate), str(key)) as run:
        assert run.expect("sum") == ["sum", "tls", "4950"]
        assert "held in memory" in " ".join(run.expect("ValueError"))
