"""Each fault once on a real API server; `python -m tests.kubernetes.faults` plays more of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.rounds import play
from tests.kubernetes.faults import FAULTS
from tests.kubernetes.testbed import KubernetesTestbed

SEED = 1
SECONDS = 3.0


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesTestbed]:
    """One cluster for all faults: a fault undoes its effects."""
    made = KubernetesTestbed(tmp_path_factory.mktemp("faults") / "testbed", SEED)
    made.up()
    try:
        yield made
    finally:
        made.down()


@pytest.mark.parametrize("name", list(FAULTS))
def test_nothing_is_lost_and_nothing_runs_twice(testbed: KubernetesTestbed, name: str) -> None:
    result = play(testbed, name, FAULTS[name], SEED, quick=True, seconds=SECONDS)
    assert not result.violations, "\n".join(result.violations)
