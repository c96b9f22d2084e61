"""What Peloton relies on in policies that are plugged in: the examples keep it, a breach is found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from placement.config import PlacementSettings
from placement.core.policy import FreeHosts, HostScore, TaskAmounts
from resmgr.config import PreemptionSettings
from resmgr.core.preemption.order import Takeable, VictimOrder
from simulator.policies import BrokenContract, check_host_score, check_victim_order


@pytest.mark.usefixtures("installed")
def test_the_examples_keep_the_contract() -> None:
    strategy: Any = PlacementSettings(scorer="alignment").rules(PlacementSettings().types[0]).strategy
    check_host_score(strategy.score)
    order = PreemptionSettings(victim_order="least_work").rules.order
    assert order is not None
    check_victim_order(order)


def _writes(hosts: FreeHosts, task: TaskAmounts) -> Any:
    hosts.cpu[:] = 0
    return hosts.cpu


_random = Random(1)


def _draws(hosts: FreeHosts, task: TaskAmounts) -> Any:
    return np.array([_random.random() for _ in range(len(hosts))])


@pytest.mark.parametrize(
    ("score", "wrong"),
    [
        (_writes, "has changed what it was given"),
        (_draws, "differs between two calls"),
        (lambda hosts, task: hosts.cpu[:-1], "a number for each row"),
        (lambda hosts, task: hosts.cpu * float("nan"), "NaN in row 0"),
        (lambda hosts, task: hosts.hostnames, "should be numbers"),
    ],
)
def test_a_score_that_breaks_the_contract_is_found(score: HostScore, wrong: str) -> None:
    with pytest.raises(BrokenContract, match=wrong):
        check_host_score(score)


def _more_each_time(gangs: Takeable, now: float, calls: list[int] = []) -> Sequence[Any]:  # noqa: B006
    calls.append(0)
    return [gangs.priority] * len(calls)


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        (_more_each_time, "differs between two calls"),
        (lambda gangs, now: [gangs.frees], "a number for each row"),
    ],
)
def test_an_order_that_breaks_the_contract_is_found(order: VictimOrder, wrong: str) -> None:
    with pytest.raises(BrokenContract, match=wrong):
        check_victim_order(order)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("best", r"there are: alignment, default, gone, mine, number"),
        ("gone", "mine_gone:score cannot be loaded: ModuleNotFoundError"),
        ("number", "mine:NUMBER is int, should be a function"),
    ],
)
def test_a_name_that_is_no_policy_is_refused(installed: Path, name: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        PlacementSettings(scorer=name)


@pytest.mark.usefixtures("installed")
def test_an_order_of_victims_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"peloton\.victim_orders; there are: default, least_work"):
        PreemptionSettings(victim_order="alignment")


def test_a_module_that_fails_is_named_with_its_error(installed: Path) -> None:
    sys.modules.pop("mine", None)
    (installed / "mine.py").write_text("raise RuntimeError('no licence')\n")
    with pytest.raises(ValueError, match="mine:score cannot be loaded: RuntimeError: no licence"):
        PlacementSettings(scorer="mine")
