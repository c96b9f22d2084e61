"""The Go client: its own tests, and those against the cluster, with the race detector."""

from __future__ import annotations

import pytest

from tools.clients import CLIENTS

from .conftest import Shared, run

GO = CLIENTS / "go"


def test_the_sources_are_formatted_and_vetted() -> None:
    assert run(["gofmt", "-l", "."], GO) == ""
    run(["go", "vet", "./..."], GO)
    run(["go", "vet", "-tags=cluster", "."], GO)


def test_its_own_tests() -> None:
    run(["go", "test", "-race", "-count=1", "."], GO)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_calls_and_watches_outlive_the_leader(shared: Shared, loss: str) -> None:
    shared.run(
        *("go", "test", "-race", "-count=1", "-tags=cluster", "-run=TestClusterLosesItsLeader", "."),
        cwd=GO,
        PELOTON_TEST_LOSS=loss,
    )


@pytest.mark.timeout(900)
def test_the_small_layer(shared: Shared) -> None:
    shared.run(
        *("go", "test", "-race", "-count=1", "-tags=cluster", "-run=TestCluster(Job|Errors|Service)", "."),
        cwd=GO,
    )
