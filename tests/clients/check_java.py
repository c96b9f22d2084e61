"""The Java client: its own tests, and those against the cluster."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tools.clients import CLIENTS

from .conftest import Shared, run

JAVA = CLIENTS / "java"
MAVEN = ("mvn", "-q", "-B")


@pytest.fixture(scope="session")
def checked() -> None:
    """Run google-java-format, Error Prone and its own tests; leave what is compiled for the others."""
    run([*MAVEN, "-Pcheck", "clean", "test"], JAVA)


@pytest.mark.timeout(1200)
def test_its_own_tests(checked: None) -> None:
    assert list((JAVA / "target" / "surefire-reports").glob("*CallsTest.txt"))


def only(test: str) -> list[str]:
    return [*MAVEN, "surefire:test", f"-Dtest={test}"]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_calls_and_watches_outlive_the_leaders(checked: None, shared: Shared, loss: str) -> None:
    shared.run(*only("LossTest"), cwd=JAVA, PELOTON_TEST_LOSS=loss)


@pytest.mark.timeout(1200)
def test_the_small_layer(checked: None, shared: Shared) -> None:
    shared.run(*only("ClusterTest"), cwd=JAVA)


@pytest.mark.timeout(1200)
def test_who_calls_is_asked(checked: None, secured: Mapping[str, str]) -> None:
    run(only("SecuredTest"), JAVA, secured)
