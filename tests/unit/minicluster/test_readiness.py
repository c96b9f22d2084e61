"""Progress and errors while a cluster's components do not answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from minicluster.components import Component
from minicluster.layout import Layout
from minicluster.readiness import Patience, ReadinessWait
from peloton.errors import Unavailable
from tests.unit.deploy.servers import answering, http

TROUBLE = "ZooKeeper zk1:2181 has not answered for 9 s"


STEP_SECONDS = 0.05


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a clock has shown that goes on by a step each time it is read, however busy the machine is."""
    shown: list[float] = []
    steps = count()

    def read() -> float:
        shown.append(next(steps) * STEP_SECONDS)
        return shown[-1]

    monkeypatch.setattr("minicluster.readiness.time", SimpleNamespace(monotonic=read))
    return shown


def waiting(folder: Path, told: list[str], runs: bool = True) -> ReadinessWait:
    layout = Layout(folder)
    layout.log.mkdir()
    return ReadinessWait(layout, "", lambda part: runs, told.append, timeout=0.5, report_interval=0.1)


def daemon(port: int) -> Component:
    return Component("jobmgr0", "jobmgr", port, 1, {})


def test_the_problem_that_a_daemon_reports_is_shown(tmp_path: Path) -> None:
    told: list[str] = []
    with (
        answering(http("503 Service Unavailable", TROUBLE)) as port,
        pytest.raises(
            Unavailable,
            match=rf"jobmgr0 did not answer in \d s \(--timeout\): {TROUBLE} \(log: .*jobmgr0.log",
        ),
    ):
        waiting(tmp_path, told).wait([daemon(port)])
    assert told[0] == f"waiting for jobmgr0, 0 s so far: {TROUBLE}"


def test_the_problem_of_a_leader_is_shown(tmp_path: Path) -> None:
    told: list[str] = []
    waits = waiting(tmp_path, told)
    waits.layout.log_of("jobmgr0").write_text(
        "2026-11-21T05:56:56.760Z E peloton.daemon cannot lead in term 3: database directory /x: Permission "
        "denied\n2026-11-21T05:56:56.760Z I peloton.daemon.terms campaigning again in 2.0 s\n"
    )
    with (
        answering(http("200 OK")) as port,
        pytest.raises(
            Unavailable,
            match=r"^no jobmgr leads after \d s \(--timeout\): cannot lead in term 3: .* denied \(log:",
        ),
    ):
        waits.wait([daemon(port)])
    assert told[:2] == [
        "jobmgr0 answers",
        "waiting for a leader of jobmgr, 0 s so far: "
        "cannot lead in term 3: database directory /x: Permission denied",
    ]


def test_the_last_line_of_an_ended_component_is_shown(tmp_path: Path) -> None:
    waits = waiting(tmp_path, [], runs=False)
    waits.layout.log_of("jobmgr0").write_text("begun\npeloton-jobmgr: storage: is needed\n")
    with pytest.raises(Unavailable, match=r"jobmgr0 ended: peloton-jobmgr: storage: is needed \(log: "):
        waits.wait([daemon(1)])


@pytest.mark.parametrize("kind", ["cassandra", "zookeeper"])
def test_a_server_whose_log_grows_is_waited_for_beyond_the_timeout(
    tmp_path: Path, kind: str, seconds: list[float]
) -> None:
    """On a busy machine it takes minutes; a fixed time would end it while it was about to answer."""
    waits = replace(waiting(tmp_path, []), quiet=1.0)
    log = waits.layout.log_of(kind)
    sizes = iter(range(1, 8))

    def goes_on(part: Component) -> bool:
        if (size := next(sizes, 0)) and size < 8:
            log.write_text(size * "begun\n")
        return True

    with pytest.raises(Unavailable, match=rf"{kind} did not answer in \d s .*: begun"):
        replace(waits, is_running=goes_on).wait([Component(kind, kind, 1, 0, {})])
    grows = 8 * 3 * STEP_SECONDS  # the clock is read up to three times in a turn
    assert 1.0 <= seconds[-1] - seconds[0] <= grows + 1.0 + 4 * STEP_SECONDS


def test_a_log_that_grows_for_ever_is_not_waited_for_for_ever() -> None:
    patience = Patience(100.0, quiet=60.0, now=0.0)
    for second in range(1, 1000):
        patience.note(second, float(second))
    assert patience.until == 500.0
    still = Patience(100.0, quiet=60.0, now=0.0)
    for second in range(1, 1000):
        still.note(7, float(second))
    assert still.until == 100.0
