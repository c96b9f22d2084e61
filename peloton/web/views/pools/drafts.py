"""Configs of pools, of the fields of a form and back. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from peloton.api.v0.respool import respool_pb2
from peloton.errors import Refused
from peloton.model.amounts import amount, plain
from peloton.model.resources import KINDS
from peloton.specs import check
from peloton.web.formats import KINDS as SHOWN

if TYPE_CHECKING:
    from peloton.private.resmgr.monitoring.monitoring_pb2 import PlanPoolResponse

SOURCE = "pool"
TYPES = ("ELASTIC", "STATIC")
_AMOUNTS = ("reservation", "limit", "share")
_PLACE = re.compile(rf"resources\[([0-{len(KINDS) - 1}])\]\.")
_SMALLEST = 0.0005
"""A difference of entitlements in the unit of the kind that is none: amounts are in thousandths."""


@dataclass(frozen=True, slots=True)
class KindFields:
    """What is typed of a kind."""

    kind: str
    reservation: str = "0"
    limit: str = "0"
    share: str = "1"
    type: str = TYPES[0]


@dataclass(frozen=True, slots=True)
class PoolFields:
    """The fields of the form, as they were typed."""

    name: str = ""
    description: str = ""
    team: str = ""
    controller_limit: str = ""
    """Percent of the reservation; empty: no limit."""
    slack_limit: str = ""
    kinds: Sequence[KindFields] = ()

    @classmethod
    def of(cls, field: Callable[[str], str]) -> PoolFields:
        """Return the fields of a form; `field` gives an empty text for what is not in it."""
        return cls(
            field("name").strip(),
            field("description").strip(),
            field("team").strip(),
            field("controller_limit").strip(),
            field("slack_limit").strip(),
            tuple(
                KindFields(kind, *(field(f"{name}-{kind}").strip() for name in (*_AMOUNTS, "type")))
                for kind in KINDS
            ),
        )

    @classmethod
    def held(cls, config: respool_pb2.ResourcePoolConfig) -> PoolFields:
        """Return the fields of a config."""
        known = {each.kind: each for each in config.resources}
        return cls(
            config.name,
            config.description,
            config.owningTeam,
            plain(config.controllerLimit.maxPercent) if config.HasField("controllerLimit") else "",
            plain(config.slackLimit.maxPercent) if config.HasField("slackLimit") else "",
            tuple(
                KindFields(
                    kind,
                    plain(known[kind].reservation),
                    plain(known[kind].limit),
                    plain(known[kind].share),
                    respool_pb2.ReservationType.Name(known[kind].type or respool_pb2.ELASTIC),
                )
                if kind in known
                else KindFields(kind, share="0")
                for kind in KINDS
            ),
        )

    @classmethod
    def below(cls, parent: respool_pb2.ResourcePoolConfig) -> PoolFields:
        """Return what the form of a new pool begins with: nothing reserved, and the limits of its parent."""
        limits = {each.kind: plain(each.limit) for each in parent.resources}
        return cls(kinds=tuple(KindFields(kind, limit=limits.get(kind, "0")) for kind in KINDS))

    def config(self, held: respool_pb2.ResourcePoolConfig) -> respool_pb2.ResourcePoolConfig:
        """Return a config with these fields, and with what the form does not have as it is held.

        Raises Refused with all that is wrong.
        """
        found = check(yaml.safe_dump(self._content(), sort_keys=False), SOURCE, "respool")
        if found.errors:
            raise Refused("; ".join(each.what for each in found.errors))
        made = found.message
        assert isinstance(made, respool_pb2.ResourcePoolConfig)
        made.ldapGroups.extend(held.ldapGroups)
        made.policy = held.policy or respool_pb2.PriorityFIFO
        made.parent.CopyFrom(held.parent)
        return made

    def _content(self) -> dict[str, Any]:
        limits = {"controllerLimit": self.controller_limit, "slackLimit": self.slack_limit}
        return {
            "name": self.name,
            "description": self.description,
            "owningTeam": self.team,
            "resources": [
                {
                    "kind": each.kind,
                    **{name: _number(getattr(each, name)) for name in _AMOUNTS},
                    "type": each.type,
                }
                for each in self.kinds
            ],
            **{key: {"maxPercent": _number(value)} for key, value in limits.items() if value},
        }


def of_kinds(text: str) -> str:
    """Return an error with the titles of kinds in place of their places in the config."""
    return _PLACE.sub(lambda found: f"{SHOWN[KINDS[int(found[1])]].title} ", text)


def _number(text: str) -> float | str:
    """Return the number that a text is; nothing is 0, other texts are left to the check."""
    try:
        return float(text or 0)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class Effect:
    """What becomes of the entitlement of a pool in one kind."""

    path: str
    url: str
    """Empty for a pool that there is not yet."""
    own: bool
    """Whether it is the pool itself."""
    kind: str
    before: str
    after: str
    change: str
    held: str
    over: str
    """By how much its tasks would hold more than that; empty where they do not."""


def effects(answer: PlanPoolResponse, pool_id: str) -> list[Effect]:
    """Return what changes, the pool itself first. `pool_id` is empty for a new one."""
    found = [each for pool in answer.pools for each in _effects(pool, pool_id)]
    return sorted(found, key=lambda each: not each.own)


def _effects(pool: Any, pool_id: str) -> Iterator[Effect]:
    for kind in KINDS:
        before, after, held = (
            getattr(amounts, kind) for amounts in (pool.before, pool.after, pool.allocation)
        )
        if abs(after - before) < _SMALLEST:
            continue
        over = held - after
        yield Effect(
            pool.path,
            f"/pools/{pool.id}" if pool.id else "",
            pool.id == pool_id,
            SHOWN[kind].title,
            amount(before, kind) if pool.HasField("before") else "–",
            amount(after, kind),
            f"{'+' if after > before else '−'}{amount(abs(after - before), kind)}",
            amount(held, kind),
            amount(over, kind) if over > _SMALLEST else "",
        )
