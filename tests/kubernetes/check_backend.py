"""The contract of backends on a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.backend.scenarios import *  # noqa: F403 - its tests are those of this module
from tests.contract.backend.systems import System
from tests.kubernetes.real import RealKubernetes


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Give one cluster to all tests, as the contract does."""
    it = RealKubernetes(tmp_path_factory.mktemp("kubernetes"))
    try:
        it.start()
        yield it
    finally:
        it.stop()
