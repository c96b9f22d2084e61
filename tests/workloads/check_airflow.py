"""The Airflow provider: DAGs whose tasks are jobs on a real cluster."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from tests.cluster.conftest import Harness, harness_of, wait_for

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "host-airflow" / "bin"
PROGRAMS = ROOT / "tests" / "workloads" / "programs"
SECONDS = 240.0
WEB = "http://web.example.com"
JOB = """\
name: airflow
instanceCount: 2
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 16, diskLimitMb: 8}
  command: {shell: true, value: "echo {{ params.word }} from {{ dag.dag_id }}"}
"""


@dataclass(frozen=True, slots=True)
class Airflow:
    """An installation of Airflow with its own database, and the cluster that its connection names."""

    harness: Harness
    home: Path
    environment: Mapping[str, str]

    def ask(self, query: str) -> list[Any]:
        """Return the first column of what a query of its database finds."""
        with closing(sqlite3.connect(f"file:{self.home}/airflow.db?mode=ro", uri=True, timeout=30)) as held:
            return [row[0] for row in held.execute(query)]

    def log(self, name: str) -> str:
        """Return the end of what a process has written, by the name of its command."""
        return f"{name}: {(self.home / f'{name}.log').read_text()[-3000:]}"

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            env=self.environment,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Run a program; return its output, which must end with this code."""
        process = self.start(*words)
        try:
            output = process.communicate(timeout=SECONDS)[0]
        finally:
            process.kill()
        assert process.returncode == code, output[-6000:]
        return output


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    home = tmp_path_factory.mktemp("airflow")
    dags = home / "dags"
    dags.mkdir()
    shutil.copy(PROGRAMS / "airflow_dags.py", dags)
    shutil.copy(PROGRAMS / "airflow_calls.py", dags)
    (home / "dags" / ".airflowignore").write_text("airflow_calls.py\n")
    (dags / "job.yaml").write_text(JOB)
    with harness_of(tmp_path_factory) as harness:
        urls = harness.cluster.urls()
        connection = {
            "conn_type": "peloton",
            "host": urls["JOBMGR_URL"],
            "extra": {"resource_manager": urls["RESMGR_URL"], "web_url": WEB},
        }
        away = {"conn_type": "peloton", "host": "127.0.0.1:1", "extra": {"resource_manager": "127.0.0.1:1"}}
        wrong = {"conn_type": "peloton", "host": "127.0.0.1:1", "extra": {"resmgr": "127.0.0.1:1"}}
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "false",
            "AIRFLOW_CONN_PELOTON_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_AWAY": json.dumps(away),
            "AIRFLOW_CONN_WRONG": json.dumps(wrong),
            "NO_COLOR": "1",
        }
        held = Airflow(harness, home, environment)
        held.run("airflow", "db", "migrate")
        yield held


def job_named(output: str) -> str:
    [found] = {str(each) for each in re.findall(r"job ([0-9a-f-]{36}) is created", output)}
    return found


@pytest.mark.parametrize("kind", ["plain", "deferred"])
def test_a_job_from_a_file_gives_its_id_to_the_next_task(airflow: Airflow, kind: str) -> None:
    output = airflow.run("airflow", "dags", "test", f"told_{kind}")
    job = job_named(output)
    assert f"after {job} {job}" in output
    assert f"{WEB}/jobs/{job}" in output
    assert airflow.harness.runtime(job).state == job_pb2.SUCCEEDED
    said = b"".join(airflow.harness.client.jobs.logs(job, 1))
    assert said == f"greetings from told_{kind}\n".encode()
    assert ("PelotonJobTrigger" in output) == (kind == "deferred")


@pytest.mark.parametrize("kind", ["plain", "deferred"])
def test_a_job_that_fails_fails_the_task_and_shows_its_output(airflow: Airflow, kind: str) -> None:
    output = airflow.run("airflow", "dags", "test", f"failing_{kind}", code=1)
    job = job_named(output)
    assert f"job {job} has not succeeded: FAILED" in output
    assert "instance 1: Command exited with status 3" in output
    assert "instance 1, stderr: why" in output


@pytest.mark.parametrize("kind", ["plain", "deferred"])
def test_the_end_of_its_time_stops_the_job(airflow: Airflow, kind: str) -> None:
    output = airflow.run("airflow", "dags", "test", f"slow_{kind}", code=1)
    assert airflow.harness.ended(job_named(output)).state == job_pb2.KILLED


def test_a_task_that_is_ended_stops_its_job(airflow: Airflow) -> None:
    process = airflow.start("airflow", "dags", "test", "endless")
    told: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            told.append(line)
            if "RUNNING" in line and " is RUNNING" in line:
                break
        process.send_signal(signal.SIGTERM)
        told += process.stdout.readlines()
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait(SECONDS)
    output = "".join(told)
    assert f"stop job {job_named(output)}" in output
    assert airflow.harness.ended(job_named(output)).state == job_pb2.KILLED


def test_a_wrong_spec_is_refused(airflow: Airflow) -> None:
    output = airflow.run("airflow", "dags", "test", "wrong", code=1)
    assert "instanceCount: 0 is not" in output


def test_later_tries_take_a_job_that_goes_on(airflow: Airflow) -> None:
    output = airflow.run("python", "dags/airflow_calls.py", "tries")
    [jobs] = re.findall(r"^jobs (.*)$", output, re.MULTILINE)
    first, second, third = jobs.split()
    assert first == second == third
    [(new, given, url)] = re.findall(r"^new (\S+) (\S+) (\S+)$", output, re.MULTILINE)
    assert first != new == given
    assert url == f"{WEB}/jobs/{new}"
    assert "event KILLED" in output
    assert f"failed job {new} has not succeeded: KILLED" in output
    for job in (first, new):
        wait_for(lambda job=job: airflow.harness.runtime(job).state == job_pb2.KILLED, 60)  # type: ignore[misc]


def test_airflow_knows_the_connection_type(airflow: Airflow) -> None:
    assert "peloton" in airflow.run("airflow", "providers", "hooks", "--output", "plain")
    assert "airflow-provider-peloton" in airflow.run("airflow", "providers", "list", "--output", "plain")
    begun = time.monotonic()
    output = airflow.run("python", "dags/airflow_calls.py", "connections", "peloton_default", "away", "wrong")
    assert time.monotonic() - begun < 60
    assert "peloton_default True The cluster answers." in output
    assert "away False" in output
    assert "wrong False connection wrong: extra fields resmgr; known are" in output


def test_the_dag_of_the_page_runs(airflow: Airflow, tmp_path: Path) -> None:
    """What `docs/airflow.md` has in files, and its last commands: installing Airflow anew takes minutes."""
    page = (ROOT / "docs" / "airflow.md").read_text()
    for name, text in re.findall(r"^`(dags/[\w.]+)`:\n\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace('"/DefaultResPool"', '"/test"'))
    commands = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / ".venv").symlink_to(BIN.parent)
    done = subprocess.run(
        ["bash", "-euc", commands[-1]],
        env={**airflow.environment, **airflow.harness.cluster.urls()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    job = job_named(done.stdout + done.stderr)
    assert b"".join(airflow.harness.client.jobs.logs(job, 1)) == b"hello from 1\n"


API = "api-server"
START_SECONDS = 600.0
"""For four programs that import much, on a busy machine."""
PARTS = (API, "dag-processor", "scheduler", "triggerer")


class Parts:
    """The processes of an installation of Airflow, each with the workers that it starts."""

    def __init__(self, airflow: Airflow) -> None:
        self._airflow = airflow
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        airflow = self._airflow
        with (airflow.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(BIN / "airflow"), name],
                env=airflow.environment,
                cwd=airflow.home,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Kill a process and what it has started."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)

    def story(self) -> str:
        return "\n".join(map(self._airflow.log, PARTS))

    def end(self) -> None:
        for name in list(self._processes):
            self.kill(name)


@contextmanager
def parts_of(airflow: Airflow, port: int) -> Iterator[Parts]:
    """Run Airflow as an operator does: a process for each of its parts, which call that at the port."""
    parts = Parts(airflow)
    try:
        parts.start(API)
        wait_for(lambda: answers(port), START_SECONDS, lambda: airflow.log(API))
        for name in PARTS[1:]:
            parts.start(name)
        yield parts
    finally:
        parts.end()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.timeout(1800)
def test_a_deferred_task_outlives_its_triggerer(airflow: Airflow, tmp_path: Path) -> None:
    """Scheduler, triggerer, API server and DAG processor run a DAG; the triggerer dies while the job runs."""
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(PROGRAMS / "airflow_scheduled.py", dags)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    own = {
        "TEST_FOLDER": str(tmp_path),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__TRIGGERER__CAPACITY": "10",
    }
    held = replace(airflow, environment={**airflow.environment, **own})
    state = "select state from task_instance where dag_id = 'scheduled' and task_id = 'run'"
    ended = "select state from dag_run where dag_id = 'scheduled'"
    with parts_of(held, port) as parts:
        wait_for(lambda: held.ask(state) == ["deferred"], START_SECONDS, parts.story)
        [job] = jobs_named(held, "scheduled")
        wait_for(lambda: held.harness.runtime(job).state == job_pb2.RUNNING, 60)
        parts.kill("triggerer")
        parts.start("triggerer")
        (tmp_path / "done").touch()
        wait_for(lambda: held.ask(ended) == ["success"], START_SECONDS, parts.story)
    assert (tmp_path / "told").read_text() == job
    assert jobs_named(held, "scheduled") == [job]


def jobs_named(airflow: Airflow, name: str) -> list[str]:
    """Return the ids of the jobs with a name."""
    spec = job_pb2.QuerySpec(name=name)
    answer = airflow.harness.client.job_svc.Query(job_pb2.QueryRequest(spec=spec), timeout=30)
    return [each.id.value for each in answer.results]
