"""Jobs through all four daemons on a real API server: `peloton minicluster up --kubernetes`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import Harness, harness_of
from tests.cluster.kubernetes_jobs import *  # noqa: F403 - its tests are those of this module


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, kubernetes="own") as held:
        yield held
