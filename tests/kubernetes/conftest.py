"""One cluster with all four daemons, for all tests that need one: to bring it up takes longest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.settings import DaemonSettings
from tests.cluster.conftest import Harness, harness_of


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    settings = DaemonSettings(jobmgr={"enable_secrets": True, "debug": True}, hostmgr={"debug": True})
    with harness_of(tmp_path_factory, kubernetes="own", settings=settings) as held:
        yield held
