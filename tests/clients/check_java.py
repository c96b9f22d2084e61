"""The Java client: its own tests, and those against the cluster."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .conftest import JAVA, Shared, java_test, run


def test_its_own_tests(java_tests: None) -> None:
    assert list((JAVA / "target" / "surefire-reports").glob("*CallsTest.txt"))


@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_calls_and_watches_outlive_the_leaders(java_tests: None, shared: Shared, loss: str) -> None:
    shared.run(*java_test("LossTest"), cwd=JAVA, PELOTON_TEST_LOSS=loss)


def test_the_small_layer(java_tests: None, shared: Shared) -> None:
    shared.run(*java_test("ClusterTest"), cwd=JAVA)


def test_who_calls_is_asked(java_tests: None, secured: Mapping[str, str]) -> None:
    run(java_test("SecuredTest"), JAVA, secured)
