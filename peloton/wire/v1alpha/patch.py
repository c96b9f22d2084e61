"""Lay the fields that a patch gives over a job spec: what it does not give stays."""

from __future__ import annotations

from google.protobuf.message import Message

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.wire.v1alpha.merge import drop_older_forms

_WHOLE = frozenset({"constraint", "liveness_check", "container", "command", "entrypoint", "executor"})
"""Messages that are replaced as a whole: their parts only make sense together."""


def patched(spec: stateless_pb2.JobSpec, patch: stateless_pb2.JobSpec) -> stateless_pb2.JobSpec:
    """Return a new spec: `patch` laid over `spec`.

    Messages are patched field by field, the entries of instance_spec and the first container as well. Lists
    that are not empty replace the present ones. Numbers and flags that are zero change nothing.
    """
    result = stateless_pb2.JobSpec()
    result.CopyFrom(spec)
    _patch(result, patch)
    return result


def _patch(result: Message, patch: Message) -> None:
    if isinstance(result, pod_pb2.PodSpec) and isinstance(patch, pod_pb2.PodSpec):
        drop_older_forms(result, patch)
    for field, value in patch.ListFields():
        held, name = getattr(result, field.name), field.name
        if field.message_type is None and not field.is_repeated:
            setattr(result, name, value)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in value:
                _patch(held[key], value[key])
        elif name == "containers" and held:
            _patch(held[0], value[0])
        elif field.is_repeated:
            result.ClearField(name)
            getattr(result, name).MergeFrom(value)
        elif name in _WHOLE:
            held.CopyFrom(value)
        else:
            held.SetInParent()
            _patch(held, value)
