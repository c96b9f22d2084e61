"""The contract of backends: on the project's own Mesos, and on a small API server with process kubelets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.backend.scenarios import *  # noqa: F403 - its tests are those of this module
from tests.contract.backend.systems import SYSTEMS, System, running


@pytest.fixture(scope="module", params=sorted(SYSTEMS))
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Give one cluster to all tests: each has a job of its own, and ends it."""
    with running(request.param, tmp_path_factory.mktemp(request.param)) as it:
        yield it
