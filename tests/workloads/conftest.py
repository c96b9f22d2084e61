"""A cluster with a pool, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.cluster import Cluster
from minicluster.demo.training import POOL, POOL_SPEC
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import temporary_cluster

from .runs import ROOT, peloton

AGENTS = tuple(
    Agent(hostname=f"agent{number}", resources=f"cpus:4;mem:4096;disk:20000;ports:[{first}-{first + 999}]")
    for number, first in enumerate((26000, 27000, 28000))
)
"""With other ports than those of miniclusters: another one here would give its tasks the same."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(ClusterSettings(ports="free", agents=AGENTS)) as found:
        assert peloton(found, "respool", "create", POOL, str(ROOT / POOL_SPEC)).returncode == 0
        yield found
