"""Versions of a job's spec: as YAML, and compared with each other."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.errors import InvalidArgument
from peloton.present.plain import yaml_text
from peloton.web.formats import seconds_of
from peloton.wire.v1alpha.duplicate_fields import entrypoint_of

CONTEXT = 4
"""Unchanged lines around a change."""
MOST_LINES = 5000
"""Lines of a comparison that are shown."""
MOST_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison."""

    kind: str
    """`same`, `added`, `removed` or `gap`."""
    before: int
    """Its number in the one text, 0 where it is not in it."""
    after: int
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two texts."""

    lines: Sequence[Line]
    added: int
    removed: int
    cut: bool
    """Whether lines were left out at the end."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.added and not self.removed


def compare(before: str, after: str) -> Comparison:
    """Compare two texts line by line."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 20_000)
    lines: list[Line] = []
    added = removed = 0
    for at, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if at:
            lines.append(Line("gap", 0, 0, ""))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                pairs = zip(range(i1, i2), range(j1, j2), strict=True)
                lines += [Line("same", i + 1, j + 1, old[i]) for i, j in pairs]
                continue
            lines += [Line("removed", i + 1, 0, old[i]) for i in range(i1, i2)]
            lines += [Line("added", 0, j + 1, new[j]) for j in range(j1, j2)]
            removed, added = removed + i2 - i1, added + j2 - j1
    return Comparison(lines[:MOST_LINES], added, removed, len(lines) > MOST_LINES)


def spec_yaml(spec: stateless_pb2.JobSpec) -> str:
    """Return a spec as YAML to read and to edit: without its revision, and without older forms twice."""
    shown = stateless_pb2.JobSpec()
    shown.CopyFrom(spec)
    shown.ClearField("revision")
    for pod in (shown.default_spec, *shown.instance_spec.values()):
        for container in (*pod.init_containers, *pod.containers):
            both = container.HasField("command") and container.HasField("entrypoint")
            if both and entrypoint_of(container.command) == container.entrypoint:
                container.ClearField("entrypoint")
    if not shown.default_spec.ListFields():
        shown.ClearField("default_spec")
    return yaml_text(shown) + "\n"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a job's spec."""

    number: int
    entity: str
    """An entity version with this number."""
    since: float
    """When a workflow to it began, in seconds since 1970; 0 where that is not known."""
    how: str
    current: bool


def versions(current: str, workflows: Iterable[stateless_pb2.WorkflowInfo]) -> list[Version]:
    """Return the versions of a job, newest first; `current` is its entity version."""
    known: dict[int, tuple[float, str]] = {}
    for info in workflows:
        status = info.status
        number = config_version(status.version.value)
        kind = stateless_pb2.WorkflowType.Name(status.type).removeprefix("WORKFLOW_TYPE_").lower()
        before = config_version(status.prev_version.value)
        if number and before != number:
            how = "creation" if not before else "update" if kind == "invalid" else kind
            known[number] = (seconds_of(status.creation_time), how)
    newest = config_version(current)
    return [
        Version(number, f"{number}-1-1", *known.get(number, (0.0, "")), current=number == newest)
        for number in range(newest, max(newest - MOST_VERSIONS, 0), -1)
    ]


def config_version(entity: str) -> int:
    """Return the number of the config in an entity version, 0 where it has none."""
    first = entity.partition("-")[0]
    return int(first) if first.isascii() and first.isdigit() else 0


def chosen(text: str | None, usual: int, newest: int) -> int:
    """Return the version that a parameter names. Raises InvalidArgument."""
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:10]) <= newest):
        raise InvalidArgument("version", text, f"a version from 1 to {newest}")
    return int(text)
