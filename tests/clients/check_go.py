"""The Go client: its own tests, and those against the cluster, with the race detector."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .conftest import GO, Shared, run


def test_the_sources_are_formatted_and_vetted() -> None:
    assert run(["gofmt", "-l", "."], GO) == ""
    run(["go", "vet", "./..."], GO)
    run(["go", "vet", "-tags=cluster", "."], GO)


def test_its_own_tests(go_tests: str) -> None:
    run([go_tests, "-test.skip=^Test(Cluster|Secured)"], GO)


@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_calls_and_watches_outlive_the_leaders(shared: Shared, go_tests: str, loss: str) -> None:
    shared.run(go_tests, "-test.v", "-test.run=^TestClusterLosesItsLeaders$", cwd=GO, PELOTON_TEST_LOSS=loss)


def test_the_small_layer(shared: Shared, go_tests: str) -> None:
    shared.run(go_tests, "-test.v", "-test.run=^TestCluster(Job|Errors|Service|IsFound)", cwd=GO)


def test_who_calls_is_asked(secured: Mapping[str, str], go_tests: str) -> None:
    run([go_tests, "-test.v", "-test.run=^TestSecured(TaskTokenIsRenewed)?$"], GO, secured)
