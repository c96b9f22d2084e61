"""Offers, and how tasks take their resources from them.

A resource of Mesos comes as several entries of one name: reserved for the own role or not, revocable or not,
spread over several offers of one agent. A task takes from reserved entries first, then from unreserved
ones, and may use both (docs/behaviour/tasks.md). A revocable task takes its CPU from revocable entries only.
A persistent volume is an entry of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from peloton.errors import Refused
from peloton.fast_init import fast_init
from peloton.model.amounts import amount as text_of
from peloton.model.amounts import amount_of
from peloton.model.constraint import Label
from peloton.model.payload import Opaque
from peloton.model.resources import MILLI, Resources
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount

CPU, MEMORY, DISK, GPU, PORTS = "cpus", "mem", "disk", "gpus", "ports"
"""Names in Mesos of the resources that Peloton counts; other entries are ignored."""
SCALARS = (CPU, MEMORY, DISK, GPU)

Range = tuple[int, int]
"""First and last, both included."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One resource entry of an offer: thousandths of a scalar, or ranges of ports."""

    name: str
    template: int
    """Number of the resource without its amount, as the cluster manager has it; amounts of one template add
    up."""
    reserved: bool = False
    revocable: bool = False
    amount: int = 0
    ranges: tuple[Range, ...] = ()
    volume: str = ""
    """The id of a persistent volume, which only its task takes; empty for anything else."""


fast_init(Entry)


@dataclass(frozen=True, slots=True)
class Offer:
    """Resources of one agent that can be used now."""

    id: str
    agent_id: str
    hostname: str
    entries: tuple[Entry, ...]
    labels: tuple[Label, ...] = ()
    """Of the agent's attributes."""
    wire: Opaque = field(default=None, compare=False, repr=False)
    """The message that the internal API shows; no decision depends on it."""
    free: Free | None = field(default=None, compare=False, repr=False)
    """The sums of the entries, where the adapter has them already."""
    resources: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    """The resources, encoded as the internal API shows them; equal offers share them."""
    attributes: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    """The attributes of the agent, encoded likewise."""


fast_init(Offer)


@dataclass(frozen=True, slots=True)
class Free:
    """The sums of a host's offers: normal resources, revocable CPU, number of ports."""

    normal: Resources
    slack_cpu: int
    ports: int


fast_init(Free)


@dataclass(frozen=True, slots=True)
class Need:
    """What one task requests. `ports` are the numbers of its dynamic ports."""

    task_id: str
    resources: Resources
    revocable: bool = False
    ports: tuple[int, ...] = ()
    volume: VolumeMount | None = None


fast_init(Need)


def need_of(launch: Launch) -> Need:
    """Return what a run to launch requests."""
    return Need(launch.mesos_task_id, launch.resources, launch.revocable, launch.dynamic_ports, launch.volume)


@dataclass(frozen=True, slots=True)
class Taken:
    """A part of an entry that a task takes: an amount, ports, or a volume."""

    template: int
    amount: int = 0
    ranges: tuple[Range, ...] = ()
    volume: VolumeMount | None = None
    """The entry is this volume; or the disk that it is to be created on."""
    reserved: bool = False
    """Of a volume that is to be created: whether its disk is reserved already."""


fast_init(Taken)


@dataclass(frozen=True, slots=True)
class OfferedVolume:
    """A persistent volume, and the offer that holds it."""

    offer: Offer
    entry: Entry


class InsufficientOffers(Refused):
    """The offers have less than the tasks need."""


def free(offers: Collection[Offer]) -> Free:
    """Sum up what offers hold."""
    if len(offers) == 1:
        (offer,) = offers
        if offer.free is not None:
            return offer.free
    return free_of(entry for offer in offers for entry in offer.entries)


def free_of(entries: Iterable[Entry]) -> Free:
    """Sum up what entries hold."""
    sums = dict.fromkeys(SCALARS, 0)
    slack_cpu = ports = 0
    for entry in entries:
        if entry.volume:
            continue
        if entry.name == PORTS:
            ports += sum(last - first + 1 for first, last in entry.ranges)
        elif not entry.revocable:
            sums[entry.name] += entry.amount
        elif entry.name == CPU:
            slack_cpu += entry.amount
    return Free(Resources(*(sums[name] for name in SCALARS)), slack_cpu, ports)


def take(offers: Sequence[Offer], needs: Iterable[Need]) -> list[tuple[Taken, ...]]:
    """Return what each task takes, in order. Raises InsufficientOffers, naming the task and the amounts."""
    pool = _OfferPool(offers)
    return [pool.take(need) for need in needs]


class _OfferPool:
    """The rest of the offers of one host while tasks take from them."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self._amounts: dict[tuple[str, bool], dict[int, int]] = {}
        self._ports: list[tuple[int, int, int]] = []
        """First, last, template."""
        self._used: set[int] = set()
        self._volumes: dict[str, Entry] = {}
        self._disk: list[Entry] = []
        """Disk that volumes can be created on: unreserved first, so that it is given back as it was."""
        entries = [entry for offer in offers for entry in offer.entries if not entry.volume]
        for offer in offers:
            self._volumes.update((entry.volume, entry) for entry in offer.entries if entry.volume)
        for entry in sorted(entries, key=lambda entry: not entry.reserved):
            if entry.name == PORTS:
                self._ports += [(first, last, entry.template) for first, last in entry.ranges]
            else:
                amounts = self._amounts.setdefault((entry.name, entry.revocable), {})
                amounts[entry.template] = amounts.get(entry.template, 0) + entry.amount
        disk = [entry for entry in entries if entry.name == DISK and not entry.revocable]
        self._disk = sorted({entry.template: entry for entry in disk}.values(), key=lambda it: it.reserved)

    def take(self, need: Need) -> tuple[Taken, ...]:
        taken: list[Taken] = []
        if need.volume is not None:
            taken.append(self._volume(need.task_id, need.volume))
        for name, amount in zip(SCALARS, need.resources.values(), strict=True):
            taken += self._scalar(need, name, amount)
        by_template: dict[int, list[Range]] = {}
        for port in need.ports:
            by_template.setdefault(self._port(need, port), []).append((port, port))
        taken += [Taken(template, ranges=tuple(ranges)) for template, ranges in by_template.items()]
        return tuple(taken)

    def _volume(self, task_id: str, volume: VolumeMount) -> Taken:
        """Take a volume; or disk of one kind for a new one, before anything else is taken."""
        entry = self._volumes.pop(volume.id, None)
        if entry is not None:
            return Taken(entry.template, entry.amount, volume=replace(volume, create=False))
        if not volume.create:
            raise InsufficientOffers(f"{task_id}: volume {volume.id} is not in the host's offers")
        amounts = self._amounts.get((DISK, False), {})
        for entry in self._disk:
            if amounts[entry.template] >= volume.size:
                amounts[entry.template] -= volume.size
                return Taken(entry.template, volume.size, volume=volume, reserved=entry.reserved)
        raise InsufficientOffers(
            f"{task_id}: a volume of {text_of(volume.size / MILLI, DISK)} is larger than each piece of "
            "disk left in the host's offers"
        )

    def _port(self, need: Need, port: int) -> int:
        """Return the template of the entry that holds the port."""
        if port not in self._used:
            for first, last, template in self._ports:
                if first <= port <= last:
                    self._used.add(port)
                    return template
        raise InsufficientOffers(f"{need.task_id}: port {port} is not free in the host's offers")

    def _scalar(self, need: Need, name: str, amount: int) -> list[Taken]:
        if amount <= 0:
            return []
        amounts = self._amounts.get((name, need.revocable and name == CPU), {})
        if (held := sum(amounts.values())) < amount:
            kind = "revocable cpu" if need.revocable and name == CPU else name
            raise InsufficientOffers(
                f"{need.task_id}: needs {amount_of(amount / MILLI, kind)}, and the host's offers have "
                f"{amount_of(held / MILLI, kind)} left"
            )
        taken = []
        for template in amounts:
            part = min(amount, amounts[template])
            if part > 0:
                taken.append(Taken(template, amount=part))
                amounts[template] -= part
                amount -= part
        return taken
