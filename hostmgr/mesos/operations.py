"""Planning of operations on what a host offers: each takes resources, and gives others to the next ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from hostmgr.core.state.offers import DISK, Entry, InsufficientOffers, Need, Offer, Taken, need_of, take
from hostmgr.core.state.operations import (
    Amount,
    CreateVolume,
    DestroyVolume,
    HostOperation,
    LaunchTasks,
    Reserve,
    Unreserve,
    UnreserveLabel,
)
from hostmgr.mesos import volumes
from hostmgr.mesos.taskinfo import task_info
from hostmgr.mesos.translate import UNRESERVED, ResourceTemplates, entries_of
from mesos.v1 import mesos_pb2
from peloton.model.amounts import amount_of
from peloton.model.constraint import Label
from peloton.model.resources import MILLI, ZERO

Operation = mesos_pb2.Offer.Operation
Resource = mesos_pb2.Resource


class OperationPlan:
    """The resources that a host offers, and the messages of the operations planned on them so far."""

    def __init__(
        self, offers: Sequence[Offer], agent_id: str, templates: ResourceTemplates, principal: str
    ) -> None:
        self.messages: list[Operation] = []
        self._agent_id = agent_id
        self._templates = templates
        self._principal = principal
        self._entries = [entry for offer in offers for entry in offer.entries]

    def add(self, operation: HostOperation) -> None:
        """Plan one more operation. Raises InsufficientOffers, and InvalidArgument for a task."""
        if isinstance(operation, Reserve):
            self._reserve(operation.amounts)
        elif isinstance(operation, Unreserve):
            found = [part for each in operation.amounts for part in self._reserved(each)]
            self._unreserve(found)
        elif isinstance(operation, UnreserveLabel):
            self._unreserve(self._labelled(operation.value))
        elif isinstance(operation, CreateVolume):
            self._create(operation)
        elif isinstance(operation, DestroyVolume):
            self._destroy(operation.volume_id)
        else:
            self._launch(operation)

    def _reserve(self, amounts: Iterable[Amount]) -> None:
        message = Operation(type=Operation.RESERVE)
        for each in amounts:
            parts = self._parts(each.amount, partial(self._is_free, each))
            if parts is None:
                raise InsufficientOffers(f"the host offers less than {_text(each)} that is not reserved")
            for part in parts:
                message.reserve.resources.append(self._as_reserved(self._remove(part), each))
        self.messages.append(message)
        self._add(message.reserve.resources)

    def _is_free(self, wanted: Amount, entry: Entry) -> bool:
        if entry.name != wanted.name or entry.reserved or entry.revocable or entry.volume:
            return False
        return wanted.role in ("", self._templates.template(entry.template).allocation_info.role)

    def _as_reserved(self, resource: Resource, amount: Amount) -> Resource:
        resource.role = resource.allocation_info.role
        resource.reservation.SetInParent()
        for key, value in amount.labels:
            resource.reservation.labels.labels.add(key=key, value=value)
        if self._principal:
            resource.reservation.principal = self._principal
        return resource

    def _reserved(self, wanted: Amount) -> list[Entry]:
        """Return entries, or parts of them, that are reserved with exactly these labels."""

        def matches(entry: Entry) -> bool:
            if entry.name != wanted.name or entry.volume or entry.revocable:
                return False
            template = self._templates.template(entry.template)
            if not template.HasField("reservation") or wanted.role not in ("", template.role):
                return False
            return _labels(template) == sorted(wanted.labels)

        parts = self._parts(wanted.amount, matches)
        if parts is None:
            labels = ", ".join(f"{key}={value}" for key, value in wanted.labels) or "none"
            raise InsufficientOffers(
                f"the host offers less than {_text(wanted)} that is reserved with the labels: {labels}"
            )
        return parts

    def _labelled(self, value: str) -> list[Entry]:
        found = [
            entry
            for entry in self._entries
            if not entry.volume
            and any(each == value for _, each in _labels(self._templates.template(entry.template)))
        ]
        if not found:
            raise InsufficientOffers(f"the host offers nothing that is reserved with a label {value}")
        return found

    def _unreserve(self, parts: Sequence[Entry]) -> None:
        message = Operation(type=Operation.UNRESERVE)
        for part in parts:
            message.unreserve.resources.append(self._remove(part))
        self.messages.append(message)
        self._add(map(_unreserved, message.unreserve.resources))

    def _create(self, operation: CreateVolume) -> None:
        mount = operation.mount
        if self._volume(mount.id) is not None:
            raise InsufficientOffers(f"volume {mount.id} is on the host already")
        (taken,) = take([self._offer()], [Need(f"volume {mount.id}", ZERO, volume=mount)])[0]
        disk = self._remove(Entry(DISK, taken.template, amount=taken.amount))
        self.messages += volumes.created(disk, taken, self._principal)
        self._add([volumes.mounted(disk, taken, self._principal)])

    def _destroy(self, volume_id: str) -> None:
        entry = self._volume(volume_id)
        if entry is None:
            raise InsufficientOffers(f"volume {volume_id} is not in the host's offers")
        messages = volumes.destroyed(self._remove(entry))
        self.messages += messages
        destroyed, *unreserved = messages
        for disk in unreserved[0].unreserve.resources if unreserved else destroyed.destroy.volumes:
            self._add([_unreserved(disk) if unreserved else volumes.without_volume(disk)])

    def _launch(self, operation: LaunchTasks) -> None:
        """Plan the launch, after which nothing more can be planned."""
        message = Operation(type=Operation.LAUNCH)
        taken = take([self._offer()], map(need_of, operation.launches))
        for launch, parts in zip(operation.launches, taken, strict=True):
            message.launch.task_infos.append(task_info(launch, self._agent_id, map(self._used, parts)))
        self.messages.append(message)

    def _used(self, taken: Taken) -> Resource:
        resource = self._templates.resource(taken)
        return resource if taken.volume is None else volumes.mounted(resource, taken, self._principal)

    # Entries.

    def _offer(self) -> Offer:
        return Offer("", self._agent_id, "", tuple(self._entries))

    def _volume(self, volume_id: str) -> Entry | None:
        return next((entry for entry in self._entries if entry.volume == volume_id), None)

    def _parts(self, amount: int, matches: Callable[[Entry], bool]) -> list[Entry] | None:
        """Return parts of matching entries that add up to the amount; None where they are less."""
        parts = []
        for entry in self._entries:
            if amount > 0 and matches(entry):
                part = min(amount, entry.amount)
                parts.append(replace(entry, amount=part))
                amount -= part
        return None if amount > 0 else parts

    def _remove(self, part: Entry) -> Resource:
        """Remove a part from the entries of its template; return it as a message."""
        left = part.amount
        kept: list[Entry] = []
        for entry in self._entries:
            used = min(left, entry.amount) if entry.template == part.template else 0
            left -= used
            if used < entry.amount or not used:
                kept.append(replace(entry, amount=entry.amount - used))
        self._entries = kept
        return self._templates.resource(Taken(part.template, part.amount))

    def _add(self, resources: Iterable[Resource]) -> None:
        self._entries += entries_of(resources, self._templates)


def _unreserved(resource: Resource) -> Resource:
    free = Resource()
    free.CopyFrom(resource)
    free.role = UNRESERVED
    free.ClearField("reservation")
    return free


def _labels(resource: Resource) -> list[Label]:
    return sorted((label.key, label.value) for label in resource.reservation.labels.labels)


def _text(amount: Amount) -> str:
    return amount_of(amount.amount / MILLI, amount.name)
