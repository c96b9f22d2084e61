"""The Java client: its own tests, and those against the cluster."""

from __future__ import annotations

import pytest

from tools.clients import prepare_java

from .conftest import Shared, run

MAVEN = ("mvn", "-q", "-B", "test")


@pytest.mark.timeout(1200)
def test_its_own_tests() -> None:
    run(MAVEN, prepare_java())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_against_the_cluster(shared: Shared, loss: str) -> None:
    shared.run(
        *MAVEN,
        *("-Dtest.excluded=none", "-Dtest=ClusterTest"),
        cwd=prepare_java(),
        PELOTON_TEST_LOSS=loss,
    )
