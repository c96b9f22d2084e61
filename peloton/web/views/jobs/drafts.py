"""Specs of new jobs: the fields of a small form as YAML, and YAML with the pool that was chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import yaml

from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.errors import InvalidArgument
from peloton.specs import check

SOURCE = "spec"
"""The name of the text in errors."""
BATCH, SERVICE = "batch", "service"
KINDS: Mapping[str, str] = {BATCH: "ends", SERVICE: "runs until it is stopped"}
"""Kinds of jobs that the form makes, with what each does."""
_LINE_CHARACTERS = 110
Spec = job_pb2.JobConfig | stateless_pb2.JobSpec


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


@dataclass(frozen=True, slots=True)
class Draft:
    """The fields of the small form, as they were typed."""

    name: str = ""
    kind: str = BATCH
    instances: str = "1"
    cpu: str = "1"
    memory: str = "512"
    disk: str = "100"
    owner: str = ""
    command: str = ""
    preemptible: str = "1"

    @classmethod
    def of(cls, field: Callable[[str], str]) -> Draft:
        """Return the fields of a form; `field` gives an empty text for what is not in it."""
        return cls(**{each.name: field(each.name).replace("\r\n", "\n").strip() for each in fields(cls)})

    def text(self) -> str:
        """Return the spec as YAML. Raises InvalidArgument for what the form does not know."""
        if self.kind not in KINDS:
            raise InvalidArgument("kind", self.kind, f"one of {', '.join(KINDS)}")
        if not self.command:
            raise InvalidArgument("command", self.command, "a command for the shell")
        made = self._service() if self.kind == SERVICE else self._batch()
        return str(
            yaml.dump(made, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_LINE_CHARACTERS)
        )

    def _batch(self) -> dict[str, Any]:
        resource = {
            "cpuLimit": _number(self.cpu),
            "memLimitMb": _number(self.memory),
            "diskLimitMb": _number(self.disk),
        }
        task = {"resource": resource, "command": {"shell": True, "value": self.command}}
        return {
            "name": self.name,
            "type": "BATCH",
            **self._owner("owningTeam"),
            "instanceCount": _number(self.instances),
            "sla": {"preemptible": bool(self.preemptible)},
            "defaultConfig": task,
        }

    def _service(self) -> dict[str, Any]:
        resource = {
            "cpu_limit": _number(self.cpu),
            "mem_limit_mb": _number(self.memory),
            "disk_limit_mb": _number(self.disk),
        }
        container = {"name": "main", "resource": resource, "entrypoint": {"value": self.command}}
        return {
            "name": self.name,
            **self._owner("owning_team"),
            "instance_count": _number(self.instances),
            "sla": {"preemptible": bool(self.preemptible)},
            "default_spec": {"mesos_spec": {"shell": True}, "containers": [container]},
        }

    def _owner(self, key: str) -> dict[str, str]:
        return {key: self.owner} if self.owner else {}


def _number(text: str) -> int | float | str:
    """Return the number that a text is; other texts, such as those with a unit, are left to the check."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True, slots=True)
class Read:
    """A spec that was read, or what is wrong with it."""

    spec: Spec | None
    errors: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def service(self) -> bool:
        """Whether it is a spec of the v1alpha API."""
        return isinstance(self.spec, stateless_pb2.JobSpec)

    @property
    def pool_id(self) -> str:
        """Return the id of the pool that it names; empty for none."""
        if isinstance(self.spec, stateless_pb2.JobSpec):
            return self.spec.respool_id.value
        return "" if self.spec is None else self.spec.respoolID.value


def read_draft(text: str, pool_id: str) -> Read:
    """Read the spec of a job, with the pool that was chosen, if any, and say all that is wrong with it."""
    found = check(text, SOURCE)
    warnings = [str(each) for each in found.warnings]
    if found.errors:
        return Read(None, [str(each) for each in found.errors], warnings)
    spec = found.message
    if isinstance(spec, respool_pb2.ResourcePoolConfig):
        return Read(None, ["this is the spec of a resource pool: pools are created on the page of pools"])
    assert isinstance(spec, job_pb2.JobConfig | stateless_pb2.JobSpec)
    held = spec.respool_id if isinstance(spec, stateless_pb2.JobSpec) else spec.respoolID
    if pool_id and held.value not in ("", pool_id):
        return Read(None, ["the spec names another pool than the one that is chosen: leave one out"])
    held.value = pool_id or held.value
    if not held.value:
        return Read(None, ["choose a pool: the spec names none"])
    return Read(spec, (), warnings)


def leaves(pools: Iterable[respool_pb2.ResourcePoolInfo]) -> dict[str, str]:
    """Return the paths of the pools that take jobs, by their ids."""
    found = [
        (pool.path.value, pool.id.value) for pool in pools if not pool.children and pool.path.value != "/"
    ]
    return {pool_id: path for path, pool_id in sorted(found)}
