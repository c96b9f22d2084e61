"""How a workflow proceeds, in both APIs: what a client encodes is what the job manager reads."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from peloton.model.workflow import Range, WorkflowOptions
from peloton.wire import workflow as v0
from peloton.wire.v1alpha import workflow as v1alpha

ALL = WorkflowOptions(
    batch_size=3,
    batch_percentage=25.0,
    rollback_on_failure=True,
    max_instance_attempts=5,
    max_failure_instances=7,
    start_paused=True,
    in_place=True,
    start_tasks=True,
    stop_before_update=True,
)
V0_ALONE = {"batch_percentage", "stop_before_update"}
NAMES = [each.name for each in fields(WorkflowOptions)]


def only(*names: str) -> WorkflowOptions:
    return replace(WorkflowOptions(), **{name: getattr(ALL, name) for name in names})


def test_every_option_is_tried() -> None:
    assert all(getattr(ALL, name) != getattr(WorkflowOptions(), name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_updates_of_v0(name: str) -> None:
    assert v0.options_from(v0.options_to(only(name))) == only(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in V0_ALONE])
def test_updates_of_v1alpha(name: str) -> None:
    assert v1alpha.update_options(v1alpha.update_spec(only(name))) == only(name)


@pytest.mark.parametrize(
    "name", ["batch_size", "max_instance_attempts", "max_failure_instances", "start_paused"]
)
def test_creations(name: str) -> None:
    assert v1alpha.create_options(v1alpha.create_spec(only(name))) == only(name)


@pytest.mark.parametrize("name", ["batch_size", "in_place"])
def test_restarts(name: str) -> None:
    assert v1alpha.restart_options(v1alpha.restart_spec(only(name))) == only(name)


def test_the_instances_of_a_restart() -> None:
    held = v1alpha.restart_spec(ALL, [Range(2, 4)]).ranges
    assert [(getattr(each, "from"), each.to) for each in held] == [(2, 4)]
