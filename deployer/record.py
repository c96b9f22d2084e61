"""What a deployer has done and is about to do, as ZooKeeper keeps it: one JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deployer.core.values import Failures
from deployer.installation import Installation, installation_from
from peloton.config.sources import Tree
from peloton.errors import NotFound, Refused
from peloton.plainjson import parse_json

FORMAT = 1
MOST_REVISIONS = 10
"""Revisions that are kept, to go back to."""
MOST_BYTES = 900_000
"""A node of ZooKeeper holds 1 MiB at most."""
MIGRATE = "schema"
"""Group of the task that brings the schema of the store up to date."""
FORGET_SECONDS = 600.0
"""Failures of a group that are longer ago count no more."""


@dataclass(frozen=True, slots=True)
class Started:
    """A daemon that is started, or about to be."""

    group: str
    revision: int
    digest: str
    host: str
    ip: str
    agent: str
    """Id of the Mesos agent."""
    ports: tuple[int, ...]
    at: float
    """When; seconds since 1970."""
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """An installation as it was wanted at some time."""

    number: int
    at: float
    """When; seconds since 1970."""
    by: str
    tree: Tree
    whole: bool = False
    """Whether it was reached."""

    @property
    def installation(self) -> Installation:
        """Read it. Raises ConfigError where this program does not know it."""
        return installation_from(self.tree, f"revision {self.number}")


@dataclass(frozen=True, slots=True)
class Record:
    """All that lasts of an installation."""

    framework_id: str = ""
    wanted: int = 0
    """Number of the wanted revision; 0: there is none yet."""
    revisions: tuple[Revision, ...] = ()
    """In order of their numbers."""
    reached: bool = False
    """Whether the wanted revision has been whole since it is wanted."""
    went_back: str = ""
    """Why the wanted revision is an earlier one; empty where somebody wanted it."""
    launched: int = 0
    """Daemons started so far."""
    schemas: tuple[str, ...] = ()
    """Digests of the last schemas that were brought about; a later one serves the versions before it."""
    schema_failure: str = ""
    instances: dict[str, Started] = field(default_factory=dict)
    failures: dict[str, Failures] = field(default_factory=dict)
    destroying: bool = False

    def revision(self, number: int) -> Revision:
        """Return a revision. Raises NotFound."""
        for each in self.revisions:
            if each.number == number:
                return each
        known = ", ".join(str(each.number) for each in self.revisions) or "none"
        raise NotFound(f"there is no revision {number} of the installation: it has {known}")

    def before(self) -> int | None:
        """Return the last revision before the wanted one that was whole; None: there is none."""
        whole = [each.number for each in self.revisions if each.whole and each.number < self.wanted]
        return max(whole, default=None)

    def fallback(self) -> int | None:
        """Return the revision to go back to where the wanted one fails; None: there is none."""
        return None if self.went_back else self.before()

    def with_wanted(self, tree: Tree, at: float, by: str) -> Record:
        """Want an installation; as it is wanted already, nothing changes.

        Where there is nothing to go back to, what has failed is tried anew: its reason may be mended.
        """
        if self.wanted and not self.destroying and self.revision(self.wanted).tree == tree:
            if self.reached or self.fallback() is not None:
                return self
            return replace(self, failures={}, schema_failure="")
        number = max((each.number for each in self.revisions), default=0) + 1
        keep = self.revisions[-(MOST_REVISIONS - 1) :]
        whole = [each for each in self.revisions if each.whole]
        if whole and whole[-1] not in keep:
            keep = (whole[-1], *keep[1:])
        made = replace(self, revisions=(*keep, Revision(number, at, by, tree)), destroying=False)
        return made.wanting(number)

    def wanting(self, number: int, why: str = "") -> Record:
        """Want a revision that there is. Raises NotFound."""
        self.revision(number)
        return replace(self, wanted=number, reached=False, went_back=why, failures={}, schema_failure="")

    def with_schema(self, digest: str) -> Record:
        """Note that a schema was brought about."""
        others = [each for each in self.schemas if each != digest]
        failures = {group: each for group, each in self.failures.items() if group != MIGRATE}
        schemas = (*others, digest)[-MOST_REVISIONS:]
        return replace(self, schemas=schemas, schema_failure="", failures=failures)

    def whole(self) -> Record:
        """Note that the wanted revision is whole."""
        noted = tuple(replace(e, whole=True) if e.number == self.wanted else e for e in self.revisions)
        return replace(self, reached=True, revisions=noted)

    def with_instance(self, name: str, started: Started) -> Record:
        """Note a daemon that is about to be started."""
        return replace(self, instances={**self.instances, name: started}, launched=self.launched + 1)

    def without(self, name: str) -> Record:
        """Forget a daemon that has ended."""
        return replace(self, instances={key: each for key, each in self.instances.items() if key != name})

    def ending(self, name: str) -> Record:
        """Note that a daemon is told to end."""
        told = replace(self.instances[name], ending=True)
        return replace(self, instances={**self.instances, name: told})

    def failed(self, group: str, digest: str, at: float, why: str) -> Record:
        """Count a failure of a group."""
        before = self.failures.get(group)
        again = before is not None and before.digest == digest and at - before.last < FORGET_SECONDS
        count = before.count + 1 if before is not None and again else 1
        return replace(self, failures={**self.failures, group: Failures(digest, count, at, why)})

    def schema_failed(self, digest: str, at: float, why: str, tries: int) -> Record:
        """Count a failure to bring the schema about; the last of `tries` one after another is final."""
        counted = self.failed(MIGRATE, digest, at, why)
        return replace(counted, schema_failure=why if counted.failures[MIGRATE].count >= tries else "")


def to_json(record: Record) -> bytes:
    """Encode a record. Raises Refused where it is too large for ZooKeeper."""
    text = json.dumps({"format": FORMAT, **asdict(record)}).encode()
    if len(text) > MOST_BYTES:
        raise Refused(
            f"the record of the installation has {len(text):,} bytes: ZooKeeper holds {MOST_BYTES:,}"
        )
    return text


def from_json(text: bytes) -> Record:
    """Decode a record. Raises Refused for one of a newer deployer, or none at all."""
    try:
        held: dict[str, Any] = parse_json(text)
        if held.pop("format") != FORMAT:
            raise Refused("the record of the installation is of a newer version of peloton: use that one")
        return Record(
            **{
                **held,
                "schemas": tuple(held["schemas"]),
                "revisions": tuple(Revision(**each) for each in held["revisions"]),
                "instances": {
                    name: Started(**{**each, "ports": tuple(each["ports"])})
                    for name, each in held["instances"].items()
                },
                "failures": {name: Failures(**each) for name, each in held["failures"].items()},
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"the record of the installation cannot be read: {error!r}") from None
