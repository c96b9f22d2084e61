"""What Peloton relies on in policies that are plugged in: the examples keep it, a breach is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import yaml

from peloton.model.states import TaskType
from placement.config import PlacementSettings, own_strategy
from placement.core.batch import Batch
from placement.core.model import Gang
from placement.core.policy import FreeHosts, HostScore, TaskAmounts
from placement.core.strategy import Family
from resmgr.config import PreemptionSettings, ResmgrSettings
from resmgr.core.preemption.order import Takeable, VictimOrder
from resmgr.core.state.entitlement_policy import SharingPools
from resmgr.core.state.queue_order import QueueOrder
from simulator.policies import (
    BrokenContract,
    check_entitlement,
    check_host_score,
    check_queue_order,
    check_strategy,
    check_victim_order,
)

from .conftest import EXAMPLES


@pytest.mark.usefixtures("installed")
def test_the_examples_keep_the_contract() -> None:
    strategy: Any = PlacementSettings(scorer="alignment").rules(PlacementSettings().types[0]).strategy
    check_host_score(strategy.score)
    order = PreemptionSettings(victim_order="least_work").rules.order
    assert order is not None
    check_victim_order(order)
    settings = ResmgrSettings.model_validate(
        {
            "storage": {"path": "unused"},
            "entitlement_policy": "fixed_shares",
            "admission": {"queue_order": "smallest_first"},
        }
    )
    assert settings.policies.entitlement is not None and settings.policies.queue_order is not None
    check_entitlement(settings.policies.entitlement)
    check_queue_order(settings.policies.queue_order)
    check_strategy(lambda kind, _: PlacementSettings(strategy="packed").rules(kind).strategy)


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


def _one_family(kind: TaskType, longest: float) -> Any:
    class Together(Batch):
        def family(self, gang: Gang) -> Family:
            return Family("all", 0)

    return Together(kind, longest or 60.0)


def test_a_strategy_that_breaks_the_contract_is_found() -> None:
    check_strategy(own_strategy)
    with pytest.raises(BrokenContract, match="gangs for different hosts are in one family: all"):
        check_strategy(_one_family)
    with pytest.raises(BrokenContract, match="for STATELESS tasks is for BATCH ones"):
        check_strategy(lambda kind, longest: Batch())
    with pytest.raises(BrokenContract, match=r"for 300.0 s: should be above 0, and below the 300 s"):
        check_strategy(lambda kind, longest: Batch(kind, 300.0))


def _all(pools: SharingPools, capacity: Any) -> Any:
    return pools.limit


def _of_rows(pools: SharingPools, capacity: Any) -> Any:
    return pools.limit[:, 0]


def _takes(pools: SharingPools, capacity: Any) -> Any:
    pools.wanted[:] = 0
    return pools.limit


def _unknown(pools: SharingPools, capacity: Any) -> Any:
    return pools.limit * float("nan")


def test_an_entitlement_that_breaks_the_contract_is_found() -> None:
    check_entitlement(_all)
    for policy, wrong in (
        (_of_rows, "shape"),
        (_takes, "has changed what it was given"),
        (_unknown, "NaN in row 0"),
    ):
        with pytest.raises(BrokenContract, match=wrong):
            check_entitlement(policy)


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        (lambda gang: _random.random(), "differs between two calls"),
        (lambda gang: float("nan"), "NaN for"),
        (lambda gang: gang.job, "should be a number"),
    ],
)
def test_an_order_of_a_queue_that_breaks_the_contract_is_found(order: QueueOrder, wrong: str) -> None:
    with pytest.raises(BrokenContract, match=wrong):
        check_queue_order(order)


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


@pytest.mark.parametrize(
    ("daemon", "settings", "there"),
    [
        (
            "resmgr",
            {
                "storage": {"path": "store.db"},
                "entitlement_policy": "best",
                "admission": {"queue_order": "best"},
                "preemption": {"victim_order": "best"},
            },
            {
                "entitlement_policy": "default, fixed_shares",
                "admission.queue_order": "default, smallest_first",
                "preemption.victim_order": "default, least_work",
            },
        ),
        (
            "placement",
            {"strategy": "best", "scorer": "best"},
            {"strategy": "default, packed", "scorer": "alignment, default, gone, mine, number"},
        ),
    ],
)
def test_a_daemon_does_not_start_with_a_name_that_is_no_policy(
    installed: Path, tmp_path: Path, daemon: str, settings: Any, there: dict[str, str]
) -> None:
    (tmp_path / "daemon.yaml").write_text(yaml.safe_dump(settings))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(EXAMPLES)])}
    command = [sys.executable, "-m", daemon, "-c", "daemon.yaml"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    told = " ".join((ran.stdout + ran.stderr).split())
    assert ran.returncode != 0
    for name, choice in there.items():
        assert name in told and f"there are: {choice}" in told, told


@pytest.mark.usefixtures("installed")
def test_an_order_of_victims_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"peloton\.victim_orders; there are: default, least_work"):
        PreemptionSettings(victim_order="alignment")


def test_a_module_that_fails_is_named_with_its_error(installed: Path) -> None:
    sys.modules.pop("mine", None)
    (installed / "mine.py").write_text("raise RuntimeError('no licence')\n")
    with pytest.raises(ValueError, match="mine:score cannot be loaded: RuntimeError: no licence"):
        PlacementSettings(scorer="mine")
