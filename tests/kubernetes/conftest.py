"""One cluster with all four daemons for all tests that need one, and servers of its own for a module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from minicluster.settings import DaemonSettings
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import ApiClient
from tests.cluster.conftest import Harness, harness_of
from tests.kubernetes.real import RealKubernetes


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    settings = DaemonSettings(jobmgr={"enable_secrets": True, "debug": True}, hostmgr={"debug": True})
    with harness_of(tmp_path_factory, kubernetes="own", settings=settings) as held:
        yield held


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubernetes]:
    """An API server with kubelets, without daemons."""
    it = RealKubernetes(tmp_path_factory.mktemp("kubernetes"))
    try:
        it.start()
        yield it
    finally:
        it.stop()


@pytest.fixture
async def admin(system: RealKubernetes) -> AsyncIterator[ApiClient]:
    """Call its API server as the administrator."""
    async with ApiClient(from_kubeconfig(system.kubeconfig)) as client:
        yield client
