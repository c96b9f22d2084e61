"""Jobs, CronJobs, Deployments and Secrets in Kubernetes' protobuf form, which `kubectl create` sends.

Fields have the numbers of k8s.io/api v0.35. What has another number is refused, as all that is not kept; JSON
has names for it, by which a refusal says more.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from peloton.web.kube.core.values import Object

PROTOBUF = "application/vnd.kubernetes.protobuf"
LARGEST_BYTES = 512_000
_MAGIC = b"k8s\0"
_TEXT, _INTEGER, _COUNT, _FLAG, _TEXTS, _AMOUNTS, _SKIP = "text", "int", "count", "flag", "map", "amounts", ""
_CONTENTS = "contents"
"""Types of fields. A count is never null, so that 0 says nothing; a list of a type is `[TYPE]`."""
Fields = Mapping[int, tuple[str, str]]
_SCHEMAS: Mapping[str, Fields] = {
    "Deployment": {1: ("metadata", "Meta"), 2: ("spec", "DeploymentSpec"), 3: ("status", _SKIP)},
    "DeploymentSpec": {
        1: ("replicas", _INTEGER), 2: ("selector", "Selector"), 3: ("template", "Template"),
        4: ("strategy", "Strategy"), 5: ("minReadySeconds", _COUNT), 6: ("revisionHistoryLimit", _INTEGER),
        7: ("paused", _FLAG), 9: ("progressDeadlineSeconds", _INTEGER),
    },
    "Strategy": {1: ("type", _TEXT), 2: ("rollingUpdate", "RollingUpdate")},
    "RollingUpdate": {1: ("maxUnavailable", "IntOrString"), 2: ("maxSurge", "IntOrString")},
    "IntOrString": {1: ("type", _COUNT), 2: ("intVal", _INTEGER), 3: ("strVal", _TEXT)},
    "Job": {1: ("metadata", "Meta"), 2: ("spec", "JobSpec"), 3: ("status", _SKIP)},
    "JobSpec": {
        1: ("parallelism", _INTEGER), 2: ("completions", _INTEGER), 3: ("activeDeadlineSeconds", _INTEGER),
        4: ("selector", "Selector"), 6: ("template", "Template"), 7: ("backoffLimit", _INTEGER),
        8: ("ttlSecondsAfterFinished", _INTEGER), 9: ("completionMode", _TEXT), 10: ("suspend", _FLAG),
        12: ("backoffLimitPerIndex", _INTEGER), 14: ("podReplacementPolicy", _TEXT),
    },
    "CronJob": {1: ("metadata", "Meta"), 2: ("spec", "CronJobSpec"), 3: ("status", _SKIP)},
    "CronJobSpec": {
        1: ("schedule", _TEXT), 2: ("startingDeadlineSeconds", _INTEGER), 3: ("concurrencyPolicy", _TEXT),
        4: ("suspend", _FLAG), 5: ("jobTemplate", "JobTemplate"), 6: ("successfulJobsHistoryLimit", _INTEGER),
        7: ("failedJobsHistoryLimit", _INTEGER), 8: ("timeZone", _TEXT),
    },
    "JobTemplate": {1: ("metadata", "Meta"), 2: ("spec", "JobSpec")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", _INTEGER), 2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", _FLAG), 4: ("propagationPolicy", _TEXT), 5: ("dryRun", "[text]"),
    },
    "Preconditions": {1: ("uid", _TEXT), 2: ("resourceVersion", _TEXT)},
    "Secret": {
        1: ("metadata", "Meta"), 2: ("data", _CONTENTS), 3: ("type", _TEXT), 4: ("stringData", _TEXTS),
        5: ("immutable", _FLAG),
    },
    "Meta": {
        1: ("name", _TEXT), 2: ("generateName", _TEXT), 3: ("namespace", _TEXT), 4: ("selfLink", _SKIP),
        5: ("uid", _SKIP), 6: ("resourceVersion", _SKIP), 7: ("generation", _SKIP),
        8: ("creationTimestamp", _SKIP), 11: ("labels", _TEXTS), 12: ("annotations", _TEXTS),
        13: ("ownerReferences", _SKIP), 17: ("managedFields", _SKIP),
    },
    "Selector": {1: ("matchLabels", _TEXTS)},
    "Template": {1: ("metadata", "Meta"), 2: ("spec", "PodSpec")},
    "PodSpec": {
        2: ("containers", "[Container]"), 3: ("restartPolicy", _TEXT),
        4: ("terminationGracePeriodSeconds", _INTEGER), 5: ("activeDeadlineSeconds", _INTEGER),
        6: ("dnsPolicy", _TEXT), 7: ("nodeSelector", _TEXTS), 8: ("serviceAccountName", _TEXT),
        11: ("hostNetwork", _FLAG), 19: ("schedulerName", _TEXT), 24: ("priorityClassName", _TEXT),
    },
    "Container": {
        1: ("name", _TEXT), 2: ("image", _TEXT), 3: ("command", "[text]"), 4: ("args", "[text]"),
        6: ("ports", "[Port]"), 7: ("env", "[Variable]"), 8: ("resources", "Resources"),
        14: ("imagePullPolicy", _TEXT), 16: ("stdin", _FLAG), 17: ("stdinOnce", _FLAG), 18: ("tty", _FLAG),
    },
    "Port": {
        1: ("name", _TEXT), 2: ("hostPort", _COUNT), 3: ("containerPort", _INTEGER), 4: ("protocol", _TEXT),
        5: ("hostIP", _TEXT),
    },
    "Variable": {1: ("name", _TEXT), 2: ("value", _TEXT)},
    "Resources": {1: ("limits", _AMOUNTS), 2: ("requests", _AMOUNTS)},
    "Envelope": {1: ("type", "Type"), 2: ("raw", "bytes"), 3: ("encoding", _TEXT), 4: ("contentType", _TEXT)},
    "Type": {1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)},
    "Entry": {1: ("key", _TEXT), 2: ("value", _TEXT)},
    "AmountEntry": {1: ("key", _TEXT), 2: ("value", "Amount")},
    "ContentEntry": {1: ("key", _TEXT), 2: ("value", "bytes")},
    "Amount": {1: ("string", _TEXT)},
}  # fmt: skip
_ENTRIES = {_TEXTS: "Entry", _AMOUNTS: "AmountEntry", _CONTENTS: "ContentEntry"}
_READABLE = ("CronJob", "DeleteOptions", "Deployment", "Job", "Secret")


def parse(data: bytes) -> Object:
    """Return an object as JSON has it. Raises ValueError for what is none, or has what is not read here."""
    if not data.startswith(_MAGIC):
        raise ValueError("it does not begin as protobuf of Kubernetes")
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"protobuf of more than {LARGEST_BYTES:,} bytes: send JSON")
    envelope = _message(data[len(_MAGIC) :], "Envelope", "")
    named = envelope.get("type", {})
    kind = named.get("kind", "")
    if kind not in _READABLE or envelope.get("encoding"):
        raise ValueError(f"{kind[:100] or 'no kind'} is not read as protobuf: send JSON")
    return {**named, **_message(envelope.get("raw", b""), kind, kind)}


def _message(data: bytes, schema: str, path: str) -> Object:
    fields = _SCHEMAS[schema]
    found: Object = {}
    for number, value in _fields(data):
        name, kind = fields.get(number, (f"field {number}", "unknown"))
        at = f"{path}.{name}" if path else name
        if kind == "unknown" and value not in (0, b""):
            raise ValueError(f"{at} of its protobuf form is not read: send JSON, which has names of fields")
        if kind.startswith("["):
            found.setdefault(name, []).append(_value(value, kind[1:-1], at))
        elif kind in _ENTRIES:
            entry = _message(_bytes(value, at), _ENTRIES[kind], at)
            found.setdefault(name, {})[entry.get("key", "")] = _entry_value(entry.get("value", ""))
        elif kind not in (_SKIP, "unknown"):
            told = _value(value, kind, at)
            if told not in (None, "", {}):
                found[name] = told
    return found


def _entry_value(value: Any) -> Any:
    """Return the value of an entry as JSON has it."""
    if isinstance(value, dict):
        return value.get("string", "")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _value(value: int | bytes, kind: str, at: str) -> Any:
    """Return the value of a field; None, or an empty one, where it says nothing."""
    if kind in (_INTEGER, _COUNT, _FLAG):
        if not isinstance(value, int):
            raise ValueError(f"{at} is not a number")
        if kind == _FLAG:
            return True if value else None
        signed = value - 2**64 if value >= 2**63 else value
        return signed or (0 if kind == _INTEGER else None)
    data = _bytes(value, at)
    if kind == _TEXT:
        return data.decode()
    if kind == "bytes":
        return data
    found = _message(data, kind, at)
    if kind == "IntOrString":
        return found.get("strVal", "") if found.get("type") else found.get("intVal", 0)
    return found


def _bytes(value: int | bytes, at: str) -> bytes:
    if isinstance(value, int):
        raise ValueError(f"{at} is a number")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: numbers of variable length, and pieces."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        number, wire = tag >> 3, tag & 7
        value, at = _number(data, at)
        if wire == 0:
            yield number, value
        elif wire == 2 and at + value <= len(data):
            yield number, data[at : at + value]
            at += value
        else:
            raise ValueError("its protobuf form is cut off, or has fields of an unknown form")


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    raise ValueError("its protobuf form is cut off")
