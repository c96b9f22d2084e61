"""Flags of updates, and how an update proceeds by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from peloton.cli.params import INDEX
from peloton.cli.session import Session, pool_id
from peloton.errors import InvalidArgument
from peloton.model.workflow import WorkflowOptions

BATCH_SIZE = click.argument("batch_size", metavar="BATCH-SIZE", type=INDEX)
"""Instances in flight at once; 0: all."""
FOLLOW = click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Show the progress until it has ended. The exit code is 0 only if it SUCCEEDED.",
)
OPAQUE_DATA = click.option("--opaque-data", default="", help="Text that is kept with the workflow.")


@dataclass(frozen=True, slots=True)
class UpdateFlags:
    """Values of the update flags (docs/behaviour/command-line.md), and the batch size."""

    batch_size: int = 0
    override: bool = False
    max_retries: int = 0
    max_failures: int = 0
    rollback: bool = False
    start_paused: bool = False
    opaque_data: str = ""
    in_place: bool = False
    start_pods: bool = False

    @property
    def options(self) -> WorkflowOptions:
        """How the workflow proceeds."""
        return WorkflowOptions(
            batch_size=self.batch_size,
            rollback_on_failure=self.rollback,
            max_instance_attempts=self.max_retries,
            max_failure_instances=self.max_failures,
            start_paused=self.start_paused,
            in_place=self.in_place,
            start_tasks=self.start_pods,
        )


def create_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that say how instances are added."""
    for option in reversed(
        (
            click.option(
                "--maxInstanceRetries",
                "max_retries",
                type=INDEX,
                default=0,
                help="Failed runs after which an instance has failed.  [default: no limit]",
            ),
            click.option(
                "--maxTolerableInstanceFailures",
                "max_failures",
                type=INDEX,
                default=0,
                help="Failed instances after which the update has failed.  [default: no limit]",
            ),
            click.option("--start-paused", is_flag=True, help="Begin paused: `workflow resume` starts it."),
            OPAQUE_DATA,
        )
    ):
        command = option(command)
    return command


def update_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of updates."""
    for option in reversed(
        (
            click.option("-o", "--override", is_flag=True, help="Replace an update that is under way."),
            create_options,
            click.option(
                "--rollbackOnFailure",
                "rollback",
                is_flag=True,
                help="Bring the instances back where the update fails.",
            ),
            click.option("--in-place", is_flag=True, help="Start instances again on the hosts they were on."),
            click.option("--start-pods", is_flag=True, help="Start instances too that are stopped."),
        )
    ):
        command = option(command)
    return command


def take_pool(session: Session, held: Any, field: str, path: str) -> None:
    """Put the id of the pool at `path` into `held`, the field of a spec.

    Raises Refused where there is no such pool, InvalidArgument where the spec names another.
    """
    found = pool_id(session, path)
    if held.value not in ("", found):
        raise InvalidArgument(field, held.value, f"the pool {path}: leave it out of the spec")
    held.value = found
