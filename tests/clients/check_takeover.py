"""Clients of all languages are answered again within 1.5 s of a new leader, however the old one is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import GO, JAVA, ROOT, java_test
from .takeover import LOSSES, Scene, measure, scene

SOON = 1.5
STEPS = 4
"""In which a client comes to another leader, each late on a busy machine: doubt, question, answer, call."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("takeover")) as found:
        yield found


@pytest.fixture(params=["go", "java", "python"])
def program(request: pytest.FixtureRequest) -> tuple[list[str], Path]:
    if request.param == "python":
        return [sys.executable, "-m", "tests.clients.takeover"], ROOT
    if request.param == "go":
        return [request.getfixturevalue("go_tests"), "-test.v", "-test.run=^TestClusterTakeover$"], GO
    request.getfixturevalue("java_tests")
    return java_test("TakeoverProgramTest"), JAVA


@pytest.mark.parametrize("by_zookeeper", [True, False], ids=["zookeeper", "addresses"])
@pytest.mark.parametrize("loss", LOSSES)
def test_clients_are_answered_again(
    cluster: Scene, program: tuple[list[str], Path], loss: str, by_zookeeper: bool
) -> None:
    taken = measure(cluster, *program, loss, by_zookeeper=by_zookeeper)
    told = f"{taken.without:.2f} s without a leader, {taken.again:.2f} s more, up to {taken.late:.2f} s late"
    print(f"{told}, {taken.calls} calls")
    assert not taken.failed
    assert taken.again <= SOON + STEPS * taken.late, told
