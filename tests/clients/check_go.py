"""The Go client: its own tests, and those against the cluster, with the race detector."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tools.clients import CLIENTS

from .conftest import Shared, run

GO = CLIENTS / "go"


def test_the_sources_are_formatted_and_vetted() -> None:
    assert run(["gofmt", "-l", "."], GO) == ""
    run(["go", "vet", "./..."], GO)
    run(["go", "vet", "-tags=cluster", "."], GO)


@pytest.fixture(scope="session")
def tests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All tests as one program, with the race detector."""
    program = str(tmp_path_factory.mktemp("go") / "tests")
    run(["go", "test", "-c", "-race", "-tags=cluster", "-o", program, "."], GO)
    return program


def test_its_own_tests(tests: str) -> None:
    run([tests, "-test.skip=^Test(Cluster|Secured)"], GO)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_calls_and_watches_outlive_the_leaders(shared: Shared, tests: str, loss: str) -> None:
    shared.run(tests, "-test.v", "-test.run=^TestClusterLosesItsLeaders$", cwd=GO, PELOTON_TEST_LOSS=loss)


@pytest.mark.timeout(900)
def test_the_small_layer(shared: Shared, tests: str) -> None:
    shared.run(tests, "-test.v", "-test.run=^TestCluster(Job|Errors|Service|IsFound)", cwd=GO)


@pytest.mark.timeout(900)
def test_who_calls_is_asked(secured: Mapping[str, str], tests: str) -> None:
    run([tests, "-test.v", "-test.run=^TestSecured$"], GO, secured)
