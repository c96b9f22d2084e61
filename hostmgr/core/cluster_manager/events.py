"""What the cluster manager reports to the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from hostmgr.core.state.offers import Offer
from peloton.model.ids import MesosTaskId
from peloton.model.payload import Opaque
from peloton.model.task import TaskStatus


class Acknowledgement(NamedTuple):
    """Identification of a status that is to be acknowledged."""

    run: MesosTaskId
    agent_id: str
    uuid: bytes
    """Empty where the cluster manager expects no acknowledgement."""


class Address(NamedTuple):
    """Address of the leading master."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A connection that has begun."""

    framework_id: str
    """The id under which tasks are launched."""
    master: Address
    master_id: str
    """Another one after each election."""


@dataclass(frozen=True, slots=True)
class OffersMade:
    """Resources of hosts that can be used now."""

    offers: Sequence[Offer]


@dataclass(frozen=True, slots=True)
class OfferRescinded:
    """An offer is void."""

    offer_id: str


@dataclass(frozen=True, slots=True)
class AgentLost:
    """An agent is lost, with its offers."""

    agent_id: str


class StatusUpdate(NamedTuple):
    """A status of a run. A tuple for speed: one is made for every status."""

    status: TaskStatus
    unknown: bool
    """The cluster manager does not know the task."""
    missing: bool
    """It answers a reconciliation: the task has ended or does not exist."""
    wire: Opaque
    """The message that the event stream carries."""

    @property
    def acknowledgement(self) -> Acknowledgement:
        """Return what acknowledges this status."""
        status = self.status
        return Acknowledgement(status.mesos_task_id, status.agent_id, status.uuid)


@dataclass(frozen=True, slots=True)
class SecondLaunchRefused:
    """A run was launched twice. The second launch was refused under the id of the first, which goes on."""

    run: MesosTaskId


@dataclass(frozen=True, slots=True)
class UnreadableStatus:
    """A status with a state that the model does not have."""

    acknowledgement: Acknowledgement


StatusEvent: TypeAlias = StatusUpdate | SecondLaunchRefused | UnreadableStatus
BackendEvent: TypeAlias = OffersMade | OfferRescinded | AgentLost | StatusEvent
