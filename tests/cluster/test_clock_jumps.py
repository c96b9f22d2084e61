"""The clock of a machine with a whole cluster jumps: nothing stalls, and durations stay what they were.

Skipped where there is no C compiler for the library that makes the daemons' clock jump.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from tests.cluster.conftest import Harness, wait_for

HOUR, DAY = 3600, 86400
SOURCE = Path(__file__).with_name("jumping_clock.c")
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc)")


class Clock:
    """By how much the clock of the cluster's processes is ahead."""

    def __init__(self, folder: Path) -> None:
        self.file, self.library = folder / "ahead", folder / "clock.so"
        self.file.write_bytes(bytes(8))
        build = [str(COMPILER), "-O2", "-shared", "-fPIC", "-o", str(self.library), str(SOURCE)]
        subprocess.run(build, check=True, timeout=60)
        self.ahead = 0

    def jump(self, seconds: int) -> None:
        """Set the clock forward or back."""
        self.ahead += seconds
        with self.file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", self.ahead))


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    return Clock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def harness(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    cluster = Cluster(tmp_path_factory.mktemp("minicluster") / "cluster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "LD_PRELOAD", str(clock.library))
        patch.setitem(os.environ, "CLOCK_AHEAD_FILE", str(clock.file))
        cluster.up(ClusterSettings(ports="free"))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


def info(harness: Harness, job_id: str) -> job_pb2.JobInfo:
    """Read a job; a call is answered at once, whatever the clock does."""
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
    try:
        found: job_pb2.JobInfo = harness.client.job_svc.Get(request, timeout=60).jobInfo
        return found
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
        raise AssertionError("the job manager has not answered for 10 s") from error


def ended(harness: Harness, job_id: str) -> None:
    wait_for(
        lambda: info(harness, job_id).runtime.state == job_pb2.SUCCEEDED,
        60,
        lambda: str(info(harness, job_id).runtime),
    )


def told(harness: Harness, job_id: str) -> float:
    """The seconds after which the job manager has logged that a job ended."""
    found: list[str] = []

    def logged() -> bool:
        for log in harness.cluster.directory.rglob("jobmgr0*"):
            if log.is_file():
                found[:] = re.findall(f"job {job_id} has ended: SUCCEEDED after ([0-9.]+) s", log.read_text())
                if found:
                    return True
        return False

    wait_for(logged, 60, lambda: "it is not in the log")
    return float(found[0])


@pytest.mark.parametrize("seconds", [HOUR, -HOUR, 30 * DAY, -30 * DAY])
def test_a_jump_stalls_nothing(harness: Harness, clock: Clock, seconds: int) -> None:
    """One job runs over the jump, the next one is created right after it."""
    begun = time.monotonic()
    over = harness.create(harness.config("sleep 3", instances=2))
    wait_for(lambda: info(harness, over).runtime.state == job_pb2.RUNNING, 60, lambda: "it does not run")
    clock.jump(seconds)
    after = harness.create(harness.config("true", instances=2))
    ended(harness, after)
    ended(harness, over)
    taken = time.monotonic() - begun
    for job_id in (over, after):
        assert told(harness, job_id) <= taken + 5
