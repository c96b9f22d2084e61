"""A small run of Kueue's performance test through real daemons: all workloads are admitted in the quotas."""

from __future__ import annotations

import pytest

from benchmarks.kueue import TESTS, cluster_settings, generator_of, run
from benchmarks.throughput import client_of
from minicluster.temporary import temporary_cluster

pytestmark = pytest.mark.extended
SECONDS = 300.0


def test_all_workloads_of_all_classes_are_admitted() -> None:
    given = generator_of(TESTS["baseline"], cohorts=2, part=0.04)
    with temporary_cluster(cluster_settings(hosts=16)) as cluster, client_of(cluster) as client:
        result = run(cluster, client, given, SECONDS)
    assert {kind: found.workloads for kind, found in result.classes.items()} == {
        "small": 2 * 6 * 14,
        "medium": 2 * 6 * 4,
        "large": 2 * 6 * 2,
    }
    # Each runs for its time and no quota is exceeded, so that use of more than all would be a wrong figure.
    assert 0.0 < result.use <= 1.0
    assert result.seconds >= result.creation > 0.0
    for found in result.classes.values():
        assert found.to_admission >= found.after_acceptance >= 0.0
