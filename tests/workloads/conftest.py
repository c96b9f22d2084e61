"""A cluster with a pool, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.cluster import Cluster
from minicluster.demo.training import POOL, POOL_SPEC
from minicluster.settings import ClusterSettings
from minicluster.temporary import temporary_cluster

from .runs import ROOT, peloton


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(ClusterSettings(ports="free")) as found:
        assert peloton(found, "respool", "create", POOL, str(ROOT / POOL_SPEC)).returncode == 0
        yield found
