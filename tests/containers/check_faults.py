"""The kill and freeze rounds of the fault suite with daemons in containers: `docker kill`, `docker pause`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.servers.maven import Missing
from tests.conftest import lacking
from tests.faults.faults import FAULTS, STATELESS, FreezePlacement, InTurn
from tests.faults.rounds import play
from tests.faults.testbed import LEADERS, Setup, Testbed
from tests.servers.engine import Engine

SEED = 1
SECONDS = 4.0
"""Of the workload, for each fault."""
ROUNDS = {
    "kills": [*(FAULTS[f"kill-{role}"] for role in LEADERS), FAULTS["kill-placement"]],
    "stops": [FAULTS[f"stop-{role}"] for role in LEADERS],
    "freezes": [*(FAULTS[f"freeze-{role}"] for role in LEADERS), FreezePlacement(STATELESS)],
    "kills in an update": [FAULTS[f"kill-{role}-in-update"] for role in LEADERS],
}


STORES = {"sqlite": tuple(ROUNDS), "cassandra": ("kills", "freezes")}
"""The rounds on each store."""


@pytest.fixture(scope="module")
def testbed(
    request: pytest.FixtureRequest, engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Testbed]:
    """The parameter is the store."""
    cassandra = request.param == "cassandra"
    setup = Setup(
        zookeeper=True, cassandra=cassandra, session_seconds=3.0, launch_seconds="0.1-1", image=image
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in engine.environment.items():
            patch.setenv(name, value)
        made = Testbed(tmp_path_factory.mktemp("faults") / "testbed", setup, SEED)
        try:
            made.up()
        except Missing as missing:
            lacking(missing)
        try:
            yield made
        finally:
            made.down()
        left = engine.must("ps", "--all", "--format", "{{.Names}}").split()
        assert not [name for name in left if name.startswith("testbed-")]


@pytest.mark.parametrize("testbed", STORES, indirect=True)
def test_nothing_is_lost_and_nothing_runs_twice(testbed: Testbed, request: pytest.FixtureRequest) -> None:
    for name in STORES[request.node.callspec.params["testbed"]]:
        fault = InTurn(ROUNDS[name])
        result = play(testbed, name, fault, SEED, quick=True, seconds=SECONDS * len(fault.faults))
        print(result)
        assert not result.violations, "\n".join(result.violations)
        assert sum(result.leaders.values()) >= len(LEADERS), result.leaders
