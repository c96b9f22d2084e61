"""The audit log: one JSON line for each call that changes something, or was refused."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from peloton.clock import rfc3339
from peloton.config.errors import ConfigError
from peloton.identity.methods import PRIVATE, for_daemons_only, split
from peloton.identity.principal import Kind, Principal
from peloton.identity.request import request_id, said
from peloton.model.resources import KINDS

READING = (
    *("Get", "List", "Lookup", "Query", "Browse", "Watch", "Cancel", "Explain", "Check", "Find", "Plan"),
    *("ClusterCapacity", "ServerReflection"),
)
"""What the names of methods begin with that change nothing. Cancel ends a watch of the caller's own."""
STDOUT = "-"
LONGEST_CHARACTERS = 200
"""Characters of a value that are kept."""
MOST_VALUES = 200
"""Values of a list that are kept."""
_IDS = ("JobID", "PodName", "UpdateID", "VolumeID", "ResourcePoolID", "ResourcePoolPath", "TaskID", "PodID")
_NAMES = (
    *("name", "hostname", "hostnames", "sourcePool", "destinationPool", "components"),
    *("instanceId", "instance", "session"),
)
Metadata = Iterable[tuple[str, str | bytes]]


class Audit:
    """Writes the log. `pool_of` returns the pool of a job, where it is known without waiting."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], int]) -> None:
        """`clock` returns nanoseconds since 1970."""
        self._write = write
        self._clock = clock
        self.pool_of: Callable[[str], str] = lambda job_id: ""

    def concerns(self, path: str, principal: Principal, metadata: Metadata) -> bool:
        """Return whether a call is of the kind that is logged: what daemons do among themselves is not."""
        service, method = split(path)
        if not self.concerns_refused(path) or for_daemons_only(service, method):
            return False
        daemon = principal.kind is Kind.DAEMON or any(key == "peloton-instance" for key, _ in metadata)
        return not daemon or not service.startswith(PRIVATE)

    def concerns_refused(self, path: str) -> bool:
        """Return whether a call is logged where it is refused: one that would change something."""
        return not split(path)[1].startswith(READING)

    def note(
        self,
        path: str,
        principal: Principal,
        metadata: Metadata,
        code: str,
        seconds: float,
        request: Any = None,
        answer: Any = None,
        why: str = "",
        address: str = "",
    ) -> None:
        """Write a line.

        Of the request it has ids and names, and of a job's spec its amounts: no secret, command, environment.
        """
        told = said(metadata)
        named = {**_named(answer), **_named(request)}
        job_id = named.get("job") or named.get("pod", "")[:36]
        line = {
            "time": rfc3339(self._clock()),
            "principal": principal.name,
            "kind": str(principal.kind),
            "roles": list(principal.roles),
            "caller": told.caller,
            "version": told.version,
            "service": told.service,
            "method": path.lstrip("/"),
            "object": named,
            "pool": named.get("pool") or (self.pool_of(str(job_id)) if job_id else ""),
            "code": code,
            "refused": _refusal(answer),
            "seconds": round(seconds, 6),
            "request": request_id() or told.request_id,
            "why": why[:LONGEST_CHARACTERS],
            "address": address,
        }
        self._write(json.dumps({key: value for key, value in line.items() if value not in ("", [], {})}))


def _named(message: Any) -> dict[str, Any]:
    """Return the ids and names by which a message says what it is about."""
    if message is None or not hasattr(message, "DESCRIPTOR"):
        return {}
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        kind = field.message_type.name if field.message_type is not None else ""
        if kind in _IDS and not field.is_repeated:
            if value := getattr(message, field.name).value:
                found[_SHORT[kind]] = str(value)[:LONGEST_CHARACTERS]
        elif kind in ("JobConfig", "JobSpec") and message.HasField(field.name):
            spec = getattr(message, field.name)
            found["name"] = spec.name[:LONGEST_CHARACTERS]
            pool = spec.respoolID.value if kind == "JobConfig" else spec.respool_id.value
            if pool:
                found["pool"] = pool[:LONGEST_CHARACTERS]
            found["asks"] = _asks(spec)
        elif kind in ("ResourcePoolConfig", "ResourcePoolSpec") and message.HasField(field.name):
            found["name"] = getattr(message, field.name).name[:LONGEST_CHARACTERS]
        elif field.name in _NAMES and not kind:
            value = getattr(message, field.name)
            plain = (
                [str(each)[:LONGEST_CHARACTERS] for each in value][:MOST_VALUES]
                if field.is_repeated
                else value
            )
            if plain not in ("", []):
                found[field.name] = plain[:LONGEST_CHARACTERS] if isinstance(plain, str) else plain
    return found


def _asks(spec: Any) -> dict[str, Any]:
    """Return the amounts of a job's spec, by which the simulator replays it: numbers only."""
    old = hasattr(spec, "instanceCount")
    sla = spec.sla
    needs = [spec.defaultConfig.resource] if old else [each.resource for each in spec.default_spec.containers]
    names = ("cpuLimit", "memLimitMb", "diskLimitMb", "gpuLimit") if old else _LIMITS
    amounts = {
        kind: sum(getattr(each, name) for each in needs) for kind, name in zip(KINDS, names, strict=True)
    }
    together = sla.minimumRunningInstances if old else 0
    elastic = old and spec.workload.HasField("elastic")
    found = {
        "instances": spec.instanceCount if old else spec.instance_count,
        **amounts,
        "priority": sla.priority,
        "preemptible": sla.preemptible,
        "service": not old or spec.type == _SERVICE,
        "gang": together > 1 or elastic,
        "needed": max(together, 1) if elastic else 0,
        "growth_interval": spec.workload.elastic.growth_interval_seconds if elastic else 0,
        "in_place": elastic and spec.workload.gang_policy == _RESTART_MEMBER,
        "max_running_time": sla.maxRunningTime if old else 0,
    }
    return {name: value for name, value in found.items() if value}


_LIMITS = ("cpu_limit", "mem_limit_mb", "disk_limit_mb", "gpu_limit")
_SERVICE = 1
"""The type SERVICE of a v0 job."""
_RESTART_MEMBER = 2
"""The gang policy RESTART_MEMBER."""
_SHORT = {
    "JobID": "job",
    "PodName": "pod",
    "UpdateID": "update",
    "VolumeID": "volume",
    "ResourcePoolID": "pool",
    "ResourcePoolPath": "path",
    "TaskID": "task",
    "PodID": "run",
}


def _refusal(answer: Any) -> str:
    """Return the refusal that an answer of the v0 API holds, by its kind; empty where it holds none."""
    if answer is None or not hasattr(answer, "DESCRIPTOR") or "error" not in answer.DESCRIPTOR.fields_by_name:
        return ""
    described = answer.DESCRIPTOR.fields_by_name["error"]
    if described.message_type is None or described.is_repeated or not answer.HasField("error"):
        return ""
    return ", ".join(field.name for field, _ in answer.error.ListFields()) or "error"


def audit_log(target: str, clock: Callable[[], int]) -> Audit | None:
    """Return the log that the setting names; None where there is none. Raises ConfigError.

    A file is opened again where it was renamed, as programs that rotate logs do.
    """
    if not target:
        return None
    handler: logging.Handler
    if target == STDOUT:
        handler = logging.StreamHandler(sys.stdout)
    else:
        path = Path(target)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            handler = _Private(path)
        except OSError as error:
            raise ConfigError(f"audit: {target}: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(message)s"))
    made = logging.Logger("peloton.audit", logging.INFO)  # of its own: the log's level does not matter
    made.addHandler(handler)
    return Audit(lambda line: made.info("%s", line), clock)


class _Private(WatchedFileHandler):
    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")
