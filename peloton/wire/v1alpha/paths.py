"""Paths of fields in v0 configs, as the v1alpha API names the same fields: for messages of errors."""

from __future__ import annotations

import re

from peloton.errors import InvalidArgument

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"\b[a-z]+(?:[A-Z][a-zA-Z]*)+\b")
_TASK = re.compile(r"(default_spec|instance_spec\[\d+\])\.(\w+)")
_RENAMED = {
    "defaultConfig": "default_spec",
    "instanceConfig": "instance_spec",
    "healthCheck": "liveness_check",
    "config": "spec",
    "jobStates": "job_states",
    "taskStates": "pod_states",
    "respoolID": "respool_id",
    "sizeMB": "size_mb",
}
_IN_CONTAINER = frozenset({"name", "resource", "container", "command", "executor", "liveness_check", "ports"})


def v1alpha_text(text: str) -> str:
    """Return a text with the names of fields of the v0 API in the form of the v1alpha API."""
    return _WORD.sub(lambda word: _RENAMED.get(word[0]) or _HUMP.sub("_", word[0]).lower(), text)


def v1alpha_path(path: str) -> str:
    """Return the path of a field of a v0 job config as one of a v1alpha job spec."""
    ours, template, theirs = path.partition(".podTemplate")
    return _TASK.sub(_placed, v1alpha_text(ours + template), count=1) + theirs


def v1alpha_error(error: InvalidArgument) -> InvalidArgument:
    """Return what is wrong with a v0 config as what is wrong with the v1alpha spec that it was made of."""
    return InvalidArgument(v1alpha_path(error.field), error.value, v1alpha_text(error.expected))


def _placed(found: re.Match[str]) -> str:
    """Name the container where the field is one of it, not of the pod."""
    pod, name = found.groups()
    return f"{pod}.containers[0].{name}" if name in _IN_CONTAINER else found[0]
