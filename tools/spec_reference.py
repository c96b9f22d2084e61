"""Write docs/spec.md: every key of the specs of jobs, services and pools, and of a minicluster's file.

    make spec

Meanings are the comments of the .proto files; where a field has none, that of its type; where neither says
anything that a user of a spec needs, MEANINGS. Units are those that the reader of specs takes
(`peloton.client.units`). Defaults are what counts for a key that is left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc_tools
import yaml
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from minicluster.settings import ClusterSettings
from peloton.client.matching import normalized
from peloton.client.units import unit_of
from peloton.config.reference import class_sections
from peloton.specs import message_type

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "spec.md"
EXAMPLES = ROOT / "examples"
Comments = Mapping[str, str]
"""Comments by the full names of messages, fields, enumerations and their values."""

PASSED_ON = "mesos.v1."
"""Messages of Mesos that MEANINGS does not name: they are passed on to the agent as they are."""
NAMED_OF_MESOS = (
    *("CommandInfo", "CommandInfo.URI", "Environment", "Environment.Variable", "ContainerInfo"),
    *(
        "ContainerInfo.DockerInfo",
        "ContainerInfo.DockerInfo.PortMapping",
        "ContainerInfo.MesosInfo",
        "Volume",
    ),
    *("Image", "Image.Docker"),
)
_M = "mesos.v1."
MEANINGS: Mapping[str, str] = {
    _M + "CommandInfo": "The command of a task.",
    _M + "CommandInfo.uris": "Files that are fetched into the sandbox before the command starts.",
    _M + "CommandInfo.environment": "Variables of the command. PELOTON_JOB_ID, PELOTON_INSTANCE_ID, "
    "PELOTON_TASK_ID and the ports' are added.",
    _M + "CommandInfo.shell": "Whether a shell runs `value`. Else `value` is a program, "
    "and `arguments` is its argv.",
    _M + "CommandInfo.value": "The line for the shell, or the program.",
    _M + "CommandInfo.arguments": "The arguments of the program, the first one being its own name.",
    _M + "CommandInfo.user": "The user that runs it. Empty = the agent's.",
    _M + "CommandInfo.URI": "A file to fetch.",
    _M + "CommandInfo.URI.value": "Its address.",
    _M + "CommandInfo.URI.executable": "Whether it gets the right to be run.",
    _M + "CommandInfo.URI.extract": "Whether an archive is unpacked.",
    _M + "CommandInfo.URI.cache": "Whether the agent keeps it for other tasks.",
    _M + "CommandInfo.URI.output_file": "Its name in the sandbox. Empty = the last part of the address.",
    _M + "Environment": "Variables of a command.",
    _M + "Environment.variables": "The variables; of two with a name the last counts.",
    _M + "Environment.Variable": "A variable.",
    _M + "Environment.Variable.name": "Its name.",
    _M + "Environment.Variable.type": "VALUE, or SECRET for one of the agent's own secrets.",
    _M + "Environment.Variable.value": "Its value. Everybody who may read the job sees it.",
    _M + "Environment.Variable.secret": "A secret of the agent's, of type SECRET.",
    _M + "ContainerInfo": "The container of a task.",
    _M + "ContainerInfo.type": "DOCKER, or MESOS for Mesos' own containers.",
    _M + "ContainerInfo.volumes": "Folders of the host, or volumes, that are mounted in it.",
    _M + "ContainerInfo.hostname": "The container's host name.",
    _M + "ContainerInfo.docker": "For the type DOCKER.",
    _M + "ContainerInfo.mesos": "For the type MESOS.",
    _M + "ContainerInfo.network_infos": "Networks that it joins. None = the host's.",
    _M + "ContainerInfo.linux_info": "Capabilities, namespaces and seccomp.",
    _M + "ContainerInfo.rlimit_info": "Limits of the kernel's, such as open files.",
    _M + "ContainerInfo.tty_info": "A terminal for the command.",
    _M + "ContainerInfo.DockerInfo": "A container of Docker's.",
    _M + "ContainerInfo.DockerInfo.image": "The image, with its registry and tag.",
    _M + "ContainerInfo.DockerInfo.network": "HOST, BRIDGE, NONE or USER.",
    _M + "ContainerInfo.DockerInfo.port_mappings": "Ports of the host that lead to ports of the container.",
    _M + "ContainerInfo.DockerInfo.privileged": "Whether it has all rights on the host.",
    _M + "ContainerInfo.DockerInfo.parameters": "Further flags of `docker run`, each a key and a value.",
    _M + "ContainerInfo.DockerInfo.force_pull_image": "Whether the image is pulled each time.",
    _M + "ContainerInfo.DockerInfo.volume_driver": "The volumes' driver.",
    _M + "ContainerInfo.DockerInfo.PortMapping": "A port of the host for one of the container.",
    _M + "ContainerInfo.DockerInfo.PortMapping.host_port": "The host's port.",
    _M + "ContainerInfo.DockerInfo.PortMapping.container_port": "The container's port.",
    _M + "ContainerInfo.DockerInfo.PortMapping.protocol": "`tcp` or `udp`.",
    _M + "ContainerInfo.MesosInfo": "A container of Mesos' own.",
    _M + "ContainerInfo.MesosInfo.image": "Its root file system. Not set = that of the host.",
    _M + "Volume": "A folder that is mounted in a container.",
    _M + "Volume.mode": "RW, or RO: without the right to write.",
    _M + "Volume.container_path": "Where it is mounted.",
    _M + "Volume.host_path": "The folder of the host.",
    _M + "Volume.image": "An image whose files it has.",
    _M + "Volume.source": "Another source: a secret, a volume of Docker's or of a CSI plugin.",
    _M + "Image": "An image of files.",
    _M + "Image.type": "DOCKER or APPC.",
    _M + "Image.appc": "For the type APPC.",
    _M + "Image.docker": "For the type DOCKER.",
    _M + "Image.cached": "Whether the agent may use one that it has.",
    _M + "Image.Docker": "An image of a Docker registry.",
    _M + "Image.Docker.name": "Its name, with registry and tag.",
    _M + "Image.Docker.credential": "Not used by registries of today: see `config`.",
    _M + "Image.Docker.config": "A Docker config with the credentials, as a secret.",
    "peloton.api.v0.task.HealthCheckConfig.CommandCheck": "A check by a command; exit code 0 is healthy.",
    "peloton.api.v0.task.HealthCheckConfig.HTTPCheck": "A check by a request; 2xx and 3xx are healthy.",
}
"""What the comments do not say, by the full name of a message or a field."""
SMALL = ("key", "value", "name")
"""Fields that the comment of their message explains."""
NAMES_OF_SERVER = ("ChangeLog", "Revision", "PodName", "ForeignPod")
"""Messages that the server fills."""
OF_SERVER = "Filled by the server"
"""Said of what a spec may leave out, and what the page therefore has no section of."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a spec, as a row of the page."""

    name: str
    takes: str
    default: str
    meaning: str
    example: str


@dataclass(frozen=True, slots=True)
class Section:
    """The keys of a message."""

    title: str
    lead: str
    keys: Sequence[Key]


def comments() -> Comments:
    """Return the comments of all .proto files."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "set")
        files = sorted(str(file.relative_to(ROOT / "proto")) for file in (ROOT / "proto").rglob("*.proto"))
        include = Path(str(grpc_tools.__file__)).parent / "_proto"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"-I{include}"]
        command += ["--include_source_info", f"--descriptor_set_out={out}", *files]
        subprocess.run(command, check=True)
        described = FileDescriptorSet.FromString(out.read_bytes())
    found: dict[str, str] = {}
    for file in described.file:
        for location in file.source_code_info.location:
            text = " ".join((location.leading_comments or location.trailing_comments).split())
            name = _named(file, list(location.path))
            if text and name:
                found[f"{file.package}.{name}"] = text
    return found


_MESSAGES, _ENUMS, _FIELDS, _NESTED, _NESTED_ENUMS, _VALUES = 4, 5, 2, 3, 4, 2


def _named(file: Any, path: list[int]) -> str:
    """Return what a path of a file's source info leads to, by its full name; empty for other things."""
    if len(path) < 2 or path[0] not in (_MESSAGES, _ENUMS):
        return ""
    held = (file.message_type if path[0] == _MESSAGES else file.enum_type)[path[1]]
    names, of_enum, rest = [held.name], path[0] == _ENUMS, path[2:]
    while rest:
        if len(rest) < 2:
            return ""
        kind, at, rest = rest[0], rest[1], rest[2:]
        if of_enum:
            if kind != _VALUES:
                return ""
            held = held.value[at]
        elif kind == _FIELDS:
            held = held.field[at]
        elif kind == _NESTED:
            held = held.nested_type[at]
        elif kind == _NESTED_ENUMS:
            held, of_enum = held.enum_type[at], True
        else:
            return ""
        names.append(held.name)
        if rest and kind == _FIELDS:
            return ""
    return ".".join(names)


def meaning_of(field: FieldDescriptor, told: Comments) -> str:
    """Return what a key means; empty where nothing says it."""
    name = field.full_name
    found = MEANINGS.get(name) or told.get(name, "")
    if found:
        return found
    kind = _message_of(field) or field.enum_type
    if kind is not None:
        return MEANINGS.get(kind.full_name) or told.get(kind.full_name, "")
    lead = told.get(field.containing_type.full_name, "")
    return f"Its {field.name}." if lead and field.name in SMALL else ""


def _message_of(field: FieldDescriptor) -> Descriptor | None:
    """Return the message that a field holds, that of a map's values, None for another field."""
    kind = field.message_type
    held: Descriptor | None = kind.fields_by_name["value"].message_type if _is_map(field) else kind
    return held


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def messages(root: Any, told: Comments) -> list[Descriptor]:
    """Return the messages of a spec, each before those that it holds; of Mesos, those that are named here."""
    found: dict[str, Descriptor] = {}

    def visit(message: Descriptor) -> None:
        if message.full_name in found or not documented(message):
            return
        if OF_SERVER in told.get(message.full_name, "") or message.name in NAMES_OF_SERVER:
            return
        found[message.full_name] = message
        for field in message.fields:
            if (inner := _message_of(field)) is not None:
                visit(inner)

    visit(root)
    return list(found.values())


def documented(message: Descriptor) -> bool:
    """Return whether the page has the keys of a message."""
    name = message.full_name
    return not name.startswith(PASSED_ON) or name.removeprefix(PASSED_ON) in NAMED_OF_MESOS


_ZERO = re.compile(r"(?:^|[.;] |, )(?:0|[Uu]nset|[Nn]ot set|[Ee]mpty|[Oo]ff|None|[Ll]eft out) = ([^.;]+)")
_NUMBERS = (
    FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64,
)  # fmt: skip
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


def default_of(field: FieldDescriptor, meaning: str) -> str:
    """Return what counts where a key is left out."""
    if OF_SERVER in meaning:
        return "the server's"
    if said := _ZERO.search(meaning):
        return said[1]
    if field.is_repeated:
        return "none"
    if field.message_type is not None:
        return "not set"
    if field.enum_type is not None:
        return f"`{field.enum_type.values[0].name}`"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "false"
    return "0" if field.cpp_type in (*_NUMBERS, *_FLOATS) else "empty"


def takes_of(field: FieldDescriptor, kind: str) -> str:
    """Return what a key takes, with its unit."""
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"a mapping of {_one(key, kind)} to {_one(value, kind)}"
    return f"a list of {_one(field, kind)}" if field.is_repeated else _one(field, kind)


def _one(field: FieldDescriptor, kind: str) -> str:
    if field.message_type is not None:
        if not documented(field.message_type):
            return f"Mesos' `{field.message_type.name}`"
        if field.message_type.name in NAMES_OF_SERVER:
            return f"`{field.message_type.name}`"
        title = title_of(field.message_type, kind)
        return f"[{field.message_type.name}](#{slug(title)})"
    if field.enum_type is not None:
        return " \\| ".join(f"`{value.name}`" for value in field.enum_type.values)
    if (unit := unit_of(field, None)) is not None:
        return f"number of {unit.one}, or with a unit"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "true or false"
    return "whole number" if field.cpp_type in _NUMBERS else "number" if field.cpp_type in _FLOATS else "text"


def title_of(message: Descriptor, kind: str) -> str:
    """Return the heading of a message's keys; a message of Mesos is in the part about Mesos."""
    name = (
        message.full_name.split(".v1.", 1)[-1] if message.full_name.startswith(PASSED_ON) else _short(message)
    )
    return f"{'mesos' if message.full_name.startswith(PASSED_ON) else kind}: {name}"


def _short(message: Descriptor) -> str:
    outer = message.containing_type
    return f"{_short(outer)}.{message.name}" if outer is not None else message.name


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z0-9_-]", "", title.lower().replace(" ", "-"))


# Examples.


def examples() -> dict[str, str]:
    """Return a value of each field that the specs in `examples` have, by the field's full name."""
    from peloton.client.yamltree import compose
    from peloton.specs import kind_of

    found: dict[str, str] = {}
    for file in sorted(EXAMPLES.rglob("*.yaml")):
        text = file.read_text()
        content = yaml.safe_load(text)
        if not isinstance(content, dict) or "agents" in content:
            continue
        _collect(message_type(kind_of(compose(text, file.name))).DESCRIPTOR, content, found)
    return found


def _collect(message: Any, content: Any, found: dict[str, str]) -> None:
    if not isinstance(content, dict):
        return
    fields = {normalized(field.name): field for field in message.fields}
    for key, value in content.items():
        field = fields.get(normalized(str(key)))
        if field is None:
            continue
        shown = _flow(value)
        if len(shown) <= MOST_EXAMPLE:
            found.setdefault(field.full_name, shown)
        inner = _message_of(field)
        if inner is None:
            continue
        if _is_map(field):
            held = list(value.values()) if isinstance(value, dict) else []
        else:
            held = value if isinstance(value, list) else [value]
        for each in held:
            _collect(inner, each, found)


MOST_EXAMPLE = 60


def _flow(value: Any) -> str:
    return (
        yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
        .removesuffix("\n...\n")
        .strip()
    )


def example_of(field: FieldDescriptor, known: Mapping[str, str]) -> str:
    """Return an example of a value: one of `examples`, or one that the type gives."""
    named = (
        OWN_EXAMPLES.get(normalized(field.name), "")
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING
        else ""
    )
    found = known.get(field.full_name) or _OF_FIELDS.get(field.full_name) or named
    if found:
        return f"`{found}`".replace("|", "\\|")
    if (unit := unit_of(field, None)) is not None:
        return f"`{unit.examples.partition(' or ')[2]}`"
    if _message_of(field) is not None:
        return "see there"
    if field.enum_type is not None:
        return f"`{field.enum_type.values[min(1, len(field.enum_type.values) - 1)].name}`"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "`true`"
    return "`2`" if field.cpp_type in _NUMBERS else "`0.5`" if field.cpp_type in _FLOATS else ""


OWN_EXAMPLES: Mapping[str, str] = {
    "arguments": "[python3, train.py]",
    "checkpointfile": "checkpoint.pt",
    "command": "curl -fs localhost:8080/health",
    "containerpath": "/data",
    "data": "base64 of the executor's data",
    "description": "Front page of the shop.",
    "envname": "PORT_HTTP",
    "cron": "'*/5 * * * *'",
    "executorid": "thermos-web",
    "hostname": "web-1",
    "hostpath": "/srv/models",
    "image": "registry.example/web:1.4",
    "priorityclass": "production",
    "job": "extract",
    "jobid": "0f3f5c2a-0000-4000-8000-000000000001",
    "key": "tier",
    "ldapgroups": "[shop-team]",
    "medium": '""',
    "mountpath": "/data",
    "name": "web",
    "outputfile": "model.bin",
    "owner": "ann",
    "path": "/health",
    "pool": "/teams/data",
    "podtemplate": "'spec: {runtimeClassName: gvisor}'",
    "protocol": "tcp",
    "rendezvousport": "rendezvous",
    "role": "worker",
    "scheme": "http",
    "stopsignal": "SIGINT",
    "templatename": "http",
    "timezone": "Europe/Berlin",
    "user": "nobody",
    "value": "front",
    "volumedriver": "local",
}
"""By names without case and underscores, where the specs in `examples` have none."""
_OF_FIELDS: Mapping[str, str] = {
    "mesos.v1.CommandInfo.URI.value": "https://files.example/model.tgz",
    "peloton.api.v1alpha.pod.apachemesos.PodSpec.URI.value": "https://files.example/model.tgz",
    "peloton.api.v1alpha.pod.CommandSpec.value": "exec ./server",
    "peloton.api.v0.peloton.ResourcePoolID.value": "1b2f5f4e-0000-4000-8000-000000000001",
    "peloton.api.v1alpha.peloton.ResourcePoolID.value": "1b2f5f4e-0000-4000-8000-000000000001",
    "peloton.api.v1alpha.volume.VolumeSpec.HostPathVolumeSource.path": "/srv/models",
}


def sections(kind: str, told: Comments, known: Mapping[str, str], done: set[str]) -> Iterator[Section]:
    """Yield the parts about a kind of spec; `done` are the messages of Mesos that the page has already."""
    for message in messages(message_type(kind).DESCRIPTOR, told):
        of_mesos = message.full_name.startswith(PASSED_ON)
        if of_mesos and message.full_name in done:
            continue
        done |= {message.full_name} if of_mesos else set()
        lead = MEANINGS.get(message.full_name) or told.get(message.full_name, "")
        keys = [_key(field, kind, told, known) for field in message.fields]
        yield Section(title_of(message, kind), lead, keys)


def _key(field: FieldDescriptor, kind: str, told: Comments, known: Mapping[str, str]) -> Key:
    meaning = meaning_of(field, told)
    values = _values(field.enum_type, told) if field.enum_type is not None else ""
    return Key(
        field.name,
        takes_of(field, kind),
        default_of(field, meaning),
        f"{meaning} {values}".strip(),
        "" if OF_SERVER in meaning else example_of(field, known),
    )


def _values(enum: EnumDescriptor, told: Comments) -> str:
    scope = enum.full_name
    said = [(value.name, told.get(f"{scope}.{value.name}", "")) for value in enum.values]
    return " ".join(f"`{name}`: {text[0].lower()}{text[1:]}" for name, text in said if text)


HEAD = """# Reference of specs

Every key of the specs of jobs, services and pools, and of a minicluster's file. Made from the comments of the
protos by `make spec`; a test compares. Keys are matched without case and underscores: `memLimitMb`,
`mem_limit_mb` and `MEMLIMITMB` are one key. An unknown key is refused with its line, by `peloton job
validate` without a cluster. MB are those of 1,048,576 bytes; `512M` is refused, because it has two meanings.

| file | keys | taken by |
|---|---|---|
| a job: batch, daemon, stateful, or a service of the v0 API | [JobConfig](#job-jobconfig) | `peloton run` |
| a service | [JobSpec](#service-jobspec) | `peloton run`, `peloton job stateless create` |
| a resource pool | [ResourcePoolConfig](#respool-resourcepoolconfig) | `peloton respool create` |
| a minicluster | [its settings](#a-minicluster) | `peloton minicluster up --config FILE` |

A **daemon** is a job with `type: DAEMON`: one instance on each host that matches, so without
`instanceCount` and `instanceConfig`. A **stateful** job has a `volume`. A daemon of Peloton itself has
[settings](settings.md).
"""
TITLES = {"job": "Jobs", "service": "Services", "respool": "Resource pools"}


def page() -> str:
    """Return the page, as Markdown."""
    told, known, done = comments(), examples(), set[str]()
    parts = [HEAD]
    for kind, title in TITLES.items():
        parts.append(f"## {title}\n")
        parts += [_text(section) for section in sections(kind, told, known, done)]
    parts += class_sections("A minicluster", ClusterSettings)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _text(section: Section) -> str:
    rows = [
        f"| `{key.name}` | {key.takes} | {key.default} | {_cell(key.meaning)} | {key.example} |"
        for key in section.keys
    ]
    head = "| key | takes | default | meaning | example |\n|---|---|---|---|---|"
    return "\n".join([f"### {section.title}", "", section.lead, "", head, *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page())
