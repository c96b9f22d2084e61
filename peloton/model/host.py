"""Hosts as operators see them."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.constraint import Label
from peloton.model.states import HostState


@dataclass(frozen=True, slots=True)
class HostInfo:
    """The state and goal of a host, as the store keeps them."""

    hostname: str
    ip: str
    state: HostState
    goal: HostState
    labels: tuple[Label, ...] = ()
    current_pool: str = ""
    desired_pool: str = ""
