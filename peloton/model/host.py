"""Hosts as operators see them."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.constraint import Label
from peloton.model.states import HostState


@dataclass(frozen=True, slots=True)
class HostInfo:
    """A host's wanted and actual state, as the store keeps it."""

    hostname: str
    ip: str
    state: HostState
    goal: HostState
    labels: tuple[Label, ...] = ()
    current_pool: str = ""
    desired_pool: str = ""
