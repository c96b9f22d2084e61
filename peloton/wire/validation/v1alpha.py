"""Rules for job specs of the v1alpha API: their own, then those for the v0 config that they become."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.errors import InvalidArgument
from peloton.required_fields import missing_fields
from peloton.wire.v1alpha.job_config import job_config_of
from peloton.wire.v1alpha.paths import v1alpha_error
from peloton.wire.validation.job import validated


def check_spec(
    spec: stateless_pb2.JobSpec, type_: job_pb2.JobType.ValueType = job_pb2.SERVICE
) -> job_pb2.JobConfig:
    """Return a valid spec of a job of that type as a config of the v0 API; `check_pool` checks its pool.

    Raises InvalidArgument with the path of the field in the spec. Takes some 100 µs per instance_spec.
    """
    if missing := missing_fields(spec):
        raise InvalidArgument(missing[0], None, "a value; it is a required field")
    _check_enums(spec, "")
    for path, pod in _pods(spec):
        _check_ports(pod, path)
        _check_volumes(pod, path)
    config = job_config_of(spec)
    config.type = type_
    try:
        validated(config)
    except InvalidArgument as error:
        raise v1alpha_error(error) from None
    return config


def _pods(spec: stateless_pb2.JobSpec) -> Iterator[tuple[str, pod_pb2.PodSpec]]:
    """Yield the pod specs as they stand in the job's, with their paths."""
    yield "default_spec", spec.default_spec
    for instance, pod in spec.instance_spec.items():
        yield f"instance_spec[{instance}]", pod


def _check_enums(message: Message, path: str) -> None:
    """Refuse a number that an enum does not know, anywhere in the message; proto3 lets it through."""
    for field, value in message.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            parts = [(f"{here}[{key}]", value[key]) for key in value]
        elif field.is_repeated:
            parts = [(f"{here}[{i}]", each) for i, each in enumerate(value)]
        else:
            parts = [(here, value)]
        for at, each in parts:
            if isinstance(each, Message):
                _check_enums(each, at)
            elif field.type == FieldDescriptor.TYPE_ENUM:
                _check_enum(field, each, at)


def _check_enum(field: FieldDescriptor, value: int, path: str) -> None:
    known = field.enum_type.values_by_number
    if value not in known:
        names = ", ".join(f"{each.name} ({number})" for number, each in known.items())
        raise InvalidArgument(path, value, f"one of {names}")


def _check_ports(pod: pod_pb2.PodSpec, path: str) -> None:
    """Check that the type of each port agrees with the rest of it."""
    ports = [
        (f"{path}.containers[{c}].ports[{i}]", port)
        for c, container in enumerate(pod.containers)
        for i, port in enumerate(container.ports)
    ]
    ports += [(f"{path}.host_ports[{i}]", port) for i, port in enumerate(pod.host_ports)]
    for at, port in ports:
        if not port.name:
            raise InvalidArgument(f"{at}.name", port.name, "a name; every port has one")
        if port.type == pod_pb2.PortSpec.PORT_TYPE_STATIC and not port.value:
            raise InvalidArgument(f"{at}.value", 0, "the number of the port, which a static one has")
        dynamic = port.type > pod_pb2.PortSpec.PORT_TYPE_STATIC
        if dynamic and port.value:
            raise InvalidArgument(f"{at}.value", port.value, "0: the number of a dynamic port is given to it")


def _check_volumes(pod: pod_pb2.PodSpec, path: str) -> None:
    seen: set[str] = set()
    for i, volume in enumerate(pod.volumes):
        at = f"{path}.volumes[{i}]"
        if not volume.name or volume.name in seen:
            raise InvalidArgument(f"{at}.name", volume.name, "a name of its own, which every volume has")
        seen.add(volume.name)
        if not volume.type:
            raise InvalidArgument(f"{at}.type", 0, "VOLUME_TYPE_EMPTY_DIR (1) or VOLUME_TYPE_HOST_PATH (2)")
        if volume.HasField("host_path") and not volume.host_path.path.startswith("/"):
            raise InvalidArgument(
                f"{at}.host_path.path", volume.host_path.path, "an absolute path on the host"
            )
