"""Faults on a real API server, each followed by the proof: `python -m tests.kubernetes.faults --times 10`.

Invariants are those of `tests.faults`: no run is lost, none runs twice at a time, nothing is left behind.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from minicluster.components import API_SERVER, ETCD, KUBELET
from tests.faults.fault import NOTHING, FaultContext
from tests.faults.faults import KillLeader, StopLeader
from tests.faults.rounds import Result, play
from tests.faults.testbed import until
from tests.kubernetes.testbed import KubernetesTestbed

WORK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class OnKubernetes:
    """A fault as a function of the testbed."""

    name: str
    play: Callable[[FaultContext, KubernetesTestbed], None]
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        assert isinstance(at.testbed, KubernetesTestbed)
        self.play(at, at.testbed)


def kill_api_server(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """SIGKILL, and a start some time later."""
    testbed.kill(API_SERVER)
    at.wait(0.2, 3)
    testbed.start(API_SERVER)


def cut_watches(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """Break all connections of hostmgr, a few times."""
    for _ in range(3):
        testbed.api.cut()
        at.wait(0.1, 1)


def lose_answers(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """Let calls have their effect, and nobody learn of it."""
    testbed.api.silence()
    at.wait(0.5, 2)
    testbed.api.speak()
    testbed.api.cut()


def cut_off(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """The API server is out of hostmgr's reach for some seconds."""
    testbed.api.down = True
    testbed.api.cut()
    at.wait(2, 6)
    testbed.api.down = False


def forget_history(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """While hostmgr is cut off, etcd is compacted and the API server begins anew: its version is too old."""
    testbed.api.down = True
    testbed.api.cut()
    version = testbed.version()
    at.wait(0.5, 2)
    testbed.make_history()
    testbed.kill(API_SERVER)
    testbed.compact()
    testbed.start(API_SERVER)
    assert testbed.is_forgotten(version), f"the API server still knows version {version}"
    testbed.api.down = False


def slow_etcd(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """For some seconds etcd stands still most of the time: each call of the API server takes long."""
    (name,) = testbed.named(ETCD)
    until = time.monotonic() + at.random.uniform(3, 8)
    while time.monotonic() < until:
        testbed.signal(name, signal.SIGSTOP)
        try:
            at.wait(0.3, 1)
        finally:
            testbed.signal(name, signal.SIGCONT)
        at.wait(0.02, 0.1)


def repeat_statuses(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """Every pod is reported again with the status that it has, several times, and by a new list, too."""
    for _ in range(4):
        testbed.repeat_statuses()
        at.wait(0.1, 0.5)
    testbed.api.cut()
    testbed.repeat_statuses()


def restart_kubelet(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """SIGKILL of a kubelet, whose tasks run on; the next one finds them."""
    name = at.random.choice(testbed.named(KUBELET))
    testbed.kill(name)
    at.wait(0.2, 3)
    testbed.start(name)


def lose_node(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """A node goes with its tasks, and comes back under its name, empty."""
    name = at.random.choice(testbed.named(KUBELET))
    testbed.lose_node(name)
    at.wait(0.5, 3)
    testbed.start(name)


def kill_hostmgr_in_launch(at: FaultContext, testbed: KubernetesTestbed) -> None:
    """SIGKILL of the leader as soon as the first pods of a new job are there, the others not yet."""
    api, job_id = at.workload.api, at.workload.new_id()
    since = time.time()
    api.create(api.config("true", 30), job_id)
    at.workload.ending.append(job_id)
    until(lambda: any(_launched(testbed, job_id, since)), 30, f"pods of {job_id}", 0.002)
    KillLeader("hostmgr").strike(at)


def _launched(testbed: KubernetesTestbed, job_id: str, since: float) -> list[bool]:
    events = testbed.events(since)
    return [True for each in events if each.kind == "launch" and each.run and each.run.job == job_id]


FAULTS: Mapping[str, KillLeader | OnKubernetes] = {
    **{
        each.__name__.replace("_", "-"): OnKubernetes(each.__name__, each)
        for each in (
            kill_api_server, cut_watches, lose_answers, cut_off, forget_history, slow_etcd, repeat_statuses,
            restart_kubelet, lose_node, kill_hostmgr_in_launch,
        )
    },
    "kill-hostmgr": KillLeader("hostmgr"),
    "stop-hostmgr": StopLeader("hostmgr"),
    "kill-jobmgr": KillLeader("jobmgr"),
}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Play each fault some times on one cluster; exit code 1 for a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="kube-faults-") as folder:
        testbed = KubernetesTestbed(Path(folder) / "testbed", options.seed)
        testbed.up()
        try:
            for seed in range(options.seed, options.seed + options.times):
                for name in options.only:
                    results.append(play(testbed, name, FAULTS[name], seed, quick=True, seconds=WORK_SECONDS))
                    told = results[-1]
                    print(name, seed, f"{told.seconds:.1f} s", *(told.violations or ["holds"]), flush=True)
        finally:
            testbed.down()
    _table(results)
    return int(any(each.violations for each in results))


def _table(results: list[Result]) -> None:
    for name in dict.fromkeys(each.fault for each in results):
        of = [each for each in results if each.fault == name]
        wrong = sum(bool(each.violations) for each in of)
        print(
            f"{name}: {len(of)} rounds, {wrong} with violations, median {median(e.seconds for e in of):.1f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
