"""Quantities of Mesos resources: parsing, arithmetic, and both wire forms of a reservation.

A ``Bundle`` maps a kind of resource (name, reservations, revocable or not, volume) to its quantity. Scalars
are whole thousandths, as Mesos rounds them; ranges are sorted, disjoint ``(begin, end)`` pairs, both ends
included; sets are frozen sets. The role to which something is *allocated* is not part of a kind: offers and
tasks have exactly one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from mesos.v1 import mesos_pb2 as mesos

Ranges = tuple[tuple[int, int], ...]
Quantity = int | Ranges | frozenset[str]

_PRECISION = 1000
_RESERVATION = mesos.Resource.ReservationInfo
STATIC = _RESERVATION.STATIC
DYNAMIC = _RESERVATION.DYNAMIC


class Reservation(NamedTuple):
    """One reservation. ``labels`` are the serialised Labels, empty for none."""

    type: int
    role: str
    principal: str = ""
    labels: bytes = b""


class Kind(NamedTuple):
    """What is counted together. ``extra`` is a serialised Resource with disk, shared and provider only."""

    name: str
    reservations: tuple[Reservation, ...] = ()
    revocable: bool = False
    extra: bytes = b""

    @property
    def role(self) -> str:
        """The role it is reserved for, ``*`` when it is not reserved."""
        return self.reservations[-1].role if self.reservations else "*"

    @property
    def volume_id(self) -> str:
        """The persistence id of a persistent volume; empty for anything else."""
        return _volume_ids(self.extra)[0] if self.extra else ""


Bundle = dict[Kind, Quantity]

_plain: dict[str, Kind] = {}


def _partial(extra: bytes) -> mesos.Resource:
    """Parse a Resource without its required fields."""
    resource = mesos.Resource()
    resource.MergeFromString(extra)
    return resource


@lru_cache(maxsize=4096)
def _volume_ids(extra: bytes) -> tuple[str, str]:
    """Return the persistence id and the container path in a kind's ``extra``."""
    disk = _partial(extra).disk
    return disk.persistence.id, disk.volume.container_path


def plain(name: str) -> Kind:
    """Return the unreserved, non-revocable kind of ``name`` (one object per name)."""
    kind = _plain.get(name)
    if kind is None:
        kind = _plain.setdefault(name, Kind(name))
    return kind


# --- ranges ----------------------------------------------------------------------------------------


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sort ranges and join those that touch or overlap."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if out and begin <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return tuple(out)


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    """Return what is left of ``ranges`` after taking ``removed`` out."""
    left = list(ranges)
    for low, high in removed:
        pieces: list[tuple[int, int]] = []
        for begin, end in left:
            if high < begin or low > end:
                pieces.append((begin, end))
                continue
            if begin < low:
                pieces.append((begin, low - 1))
            if high < end:
                pieces.append((high + 1, end))
        left = pieces
    return tuple(left)


def _covers(ranges: Ranges, wanted: Ranges) -> bool:
    return all(any(begin <= low and high <= end for begin, end in ranges) for low, high in wanted)


# --- arithmetic ------------------------------------------------------------------------------------


def _plus(a: Quantity, b: Quantity) -> Quantity:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, tuple) and isinstance(b, tuple):
        return merge(a + b)
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a | b
    raise ValueError(f"{a!r} and {b!r} are quantities of different types")


def _minus(a: Quantity, b: Quantity) -> Quantity:
    if isinstance(a, int) and isinstance(b, int):
        return max(a - b, 0)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return without(a, b)
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a - b
    raise ValueError(f"{a!r} and {b!r} are quantities of different types")


def _includes(a: Quantity | None, b: Quantity) -> bool:
    if not b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _covers(a, b)
    return isinstance(a, frozenset) and isinstance(b, frozenset) and a >= b


def add(target: Bundle, other: Bundle) -> None:
    """Add ``other`` to ``target``, in place."""
    for kind, quantity in other.items():
        mine = target.get(kind)
        if mine is None:
            target[kind] = quantity
        elif type(mine) is int and type(quantity) is int:
            target[kind] = mine + quantity
        else:
            target[kind] = _plus(mine, quantity)


def subtract(target: Bundle, other: Bundle) -> None:
    """Take ``other`` out of ``target``, in place; quantities of 0 are dropped."""
    for kind, quantity in other.items():
        mine = target.get(kind)
        if mine is None:
            continue
        left: Quantity
        if type(mine) is int and type(quantity) is int:
            left = mine - quantity if mine > quantity else 0
        else:
            left = _minus(mine, quantity)
        if left:
            target[kind] = left
        else:
            del target[kind]


def contains(bundle: Bundle, wanted: Bundle) -> bool:
    """Return whether ``wanted`` could be taken out of ``bundle``."""
    return all(_includes(bundle.get(kind), quantity) for kind, quantity in wanted.items())


def aligned(wanted: Bundle, available: Bundle) -> Bundle:
    """Return ``wanted`` with its persistent volumes as ``available`` has them.

    Where a volume is mounted is no part of what it is: a task may mount it elsewhere than its creator.
    """
    if not any(kind.extra for kind in wanted):
        return wanted
    known = {(kind.volume_id, kind.reservations): kind for kind in available if kind.volume_id}
    return {known.get((kind.volume_id, kind.reservations), kind): wanted[kind] for kind in wanted}


def unreserved(bundle: Bundle) -> Bundle:
    """Return the same amounts without their last reservation."""
    out: Bundle = {}
    for kind, quantity in bundle.items():
        add(out, {_canonical(kind._replace(reservations=kind.reservations[:-1])): quantity})
    return out


def without_volumes(bundle: Bundle) -> Bundle:
    """Return the same amounts with persistent volumes as the disk that they are made of."""
    out: Bundle = {}
    for kind, quantity in bundle.items():
        add(out, {_canonical(kind._replace(extra=_without_persistence(kind.extra))): quantity})
    return out


def checkpointed(bundle: Bundle) -> Bundle:
    """Return what an agent must remember: dynamic reservations, and persistent volumes."""
    return {
        kind: quantity
        for kind, quantity in bundle.items()
        if kind.volume_id or any(item.type == DYNAMIC for item in kind.reservations)
    }


def restored(base: Bundle, kept: Bundle) -> Bundle | None:
    """Return the resources that an agent began with, with what it remembers; None where they do not fit."""
    disk = without_volumes(kept)
    while dynamic := {kind: disk[kind] for kind in disk if _is_dynamic(kind)}:
        subtract(disk, dynamic)
        add(disk, unreserved(dynamic))
    if not contains(base, disk):
        return None
    whole = dict(base)
    subtract(whole, disk)
    add(whole, kept)
    return whole


def _is_dynamic(kind: Kind) -> bool:
    return bool(kind.reservations) and kind.reservations[-1].type == DYNAMIC


def _canonical(kind: Kind) -> Kind:
    return plain(kind.name) if kind == Kind(kind.name) else kind


def _without_persistence(extra: bytes) -> bytes:
    resource = _partial(extra)
    if resource.HasField("disk"):
        resource.disk.ClearField("persistence")
        resource.disk.ClearField("volume")
        if not resource.disk.HasField("source"):
            resource.ClearField("disk")
    return resource.SerializePartialToString(deterministic=True)


def scalars(bundle: Bundle) -> dict[str, int]:
    """Sum the scalars by name, in thousandths, whatever they are reserved for."""
    out: dict[str, int] = {}
    for kind, quantity in bundle.items():
        if isinstance(quantity, int):
            out[kind.name] = out.get(kind.name, 0) + quantity
    return out


def thousandths(value: float) -> int:
    """Round a scalar as Mesos does."""
    return round(value * _PRECISION)


# --- from and to the wire --------------------------------------------------------------------------


def _reservation(info: mesos.Resource.ReservationInfo, kind: int, role: str) -> Reservation:
    labels = info.labels.SerializeToString(deterministic=True) if info.HasField("labels") else b""
    return Reservation(kind, role, info.principal, labels)


def _reservations(resource: mesos.Resource) -> tuple[Reservation, ...]:
    if resource.reservations:
        return tuple(_reservation(info, info.type, info.role) for info in resource.reservations)
    if resource.role in ("", "*"):
        return ()
    if resource.HasField("reservation"):
        return (_reservation(resource.reservation, DYNAMIC, resource.role),)
    return (Reservation(STATIC, resource.role),)


def _extra(resource: mesos.Resource) -> bytes:
    extra = mesos.Resource()
    for field in ("disk", "shared", "provider_id"):
        if resource.HasField(field):
            getattr(extra, field).CopyFrom(getattr(resource, field))
    return extra.SerializePartialToString(deterministic=True)


def kind_of(resource: mesos.Resource) -> Kind:
    """Return the kind that a Resource message counts under."""
    reservations = _reservations(resource)
    special = resource.HasField("disk") or resource.HasField("shared") or resource.HasField("provider_id")
    revocable = resource.HasField("revocable")
    if not (reservations or special or revocable):
        return plain(resource.name)
    return Kind(resource.name, reservations, revocable, _extra(resource) if special else b"")


def quantity_of(resource: mesos.Resource) -> Quantity:
    """Return how much of it a Resource message stands for."""
    if resource.type == mesos.Value.SCALAR:
        return round(resource.scalar.value * _PRECISION)
    if resource.type == mesos.Value.RANGES:
        return merge((item.begin, item.end) for item in resource.ranges.range)
    return frozenset(resource.set.item)


def from_messages(resources: Iterable[mesos.Resource]) -> Bundle:
    """Sum Resource messages, of either form, to a bundle; nothings are left out."""
    out: Bundle = {}
    for resource in resources:
        quantity = quantity_of(resource)
        if quantity:
            kind = kind_of(resource)
            mine = out.get(kind)
            out[kind] = quantity if mine is None else _plus(mine, quantity)
    return out


def _write_quantity(message: mesos.Resource, quantity: Quantity) -> None:
    if isinstance(quantity, int):
        message.type = mesos.Value.SCALAR
        message.scalar.value = quantity / _PRECISION
    elif isinstance(quantity, tuple):
        message.type = mesos.Value.RANGES
        message.ranges.SetInParent()
        for begin, end in quantity:
            message.ranges.range.add(begin=begin, end=end)
    else:
        message.type = mesos.Value.SET
        message.set.item.extend(sorted(quantity))


def _write_new_form(message: mesos.Resource, kind: Kind) -> None:
    for item in kind.reservations:
        info = message.reservations.add(type=item.type, role=item.role)
        _write_claim(info, item)


def _write_claim(info: mesos.Resource.ReservationInfo, item: Reservation) -> None:
    if item.principal:
        info.principal = item.principal
    if item.labels:
        info.labels.ParseFromString(item.labels)


def write_old_form(message: mesos.Resource, kind: Kind) -> None:
    """Write a kind's last reservation as ``role`` and ``reservation``."""
    message.role = kind.role
    if kind.reservations and kind.reservations[-1].type == DYNAMIC:
        message.reservation.SetInParent()
        _write_claim(message.reservation, kind.reservations[-1])


_templates: dict[tuple[Kind, bool, str], mesos.Resource] = {}


def _template(kind: Kind, refined: bool, role: str) -> mesos.Resource:
    key = (kind, refined, role)
    template = _templates.get(key)
    if template is None:
        template = mesos.Resource(name=kind.name)
        if kind.extra:
            template.MergeFromString(kind.extra)
        (_write_new_form if refined else write_old_form)(template, kind)
        if kind.revocable:
            template.revocable.SetInParent()
        if role:
            template.allocation_info.role = role
        _templates[key] = template
    return template


def to_messages(bundle: Bundle, *, refined: bool = True, role: str = "") -> list[mesos.Resource]:
    """Turn a bundle into Resource messages.

    ``refined``: the new form (``reservations``); otherwise ``role`` and ``reservation``. ``role``: the role
    all of it is allocated to; empty leaves ``allocation_info`` out.
    """
    out = []
    for kind, quantity in bundle.items():
        message = mesos.Resource()
        message.CopyFrom(_template(kind, refined, role))
        _write_quantity(message, quantity)
        out.append(message)
    return out


# --- as text, in Mesos' words ----------------------------------------------------------------------


def _number(thousandth: int) -> str:
    return f"{thousandth / _PRECISION:.3f}".rstrip("0").rstrip(".")


def quantity_text(quantity: Quantity) -> str:
    """Print a quantity the way Mesos does in its messages."""
    if isinstance(quantity, int):
        return _number(quantity)
    if isinstance(quantity, tuple):
        return "[" + ", ".join(f"{begin}-{end}" for begin, end in quantity) + "]"
    return "{" + ", ".join(sorted(quantity)) + "}"


def _labels_text(labels: bytes) -> str:
    parsed = mesos.Labels.FromString(labels)
    return "{" + ", ".join(f"{item.key}: {item.value}" for item in parsed.labels) + "}"


def _claim_text(item: Reservation) -> str:
    parts = [_RESERVATION.Type.Name(item.type), item.role]  # type: ignore[arg-type]
    if item.principal:
        parts.append(item.principal)
    if item.labels:
        parts.append(_labels_text(item.labels))
    return "(" + ",".join(parts) + ")"


def kind_text(kind: Kind, role: str = "") -> str:
    """Print a kind the way Mesos does; ``role`` is the one it is allocated to."""
    allocated = f"(allocated: {role})" if role else ""
    claims = ",".join(_claim_text(item) for item in kind.reservations)
    reserved = f"(reservations: [{claims}])" if claims else ""
    volume = "[{}:{}]".format(*_volume_ids(kind.extra)) if kind.volume_id else ""
    return f"{kind.name}{allocated}{reserved}{'{REV}' if kind.revocable else ''}{volume}"


def text(bundle: Bundle, role: str = "") -> str:
    """Print a bundle the way Mesos does in its messages."""
    return "; ".join(
        f"{kind_text(kind, role)}:{quantity_text(quantity)}" for kind, quantity in bundle.items()
    )
