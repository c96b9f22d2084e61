"""Check specs without a cluster: their form, and the rules that the job manager applies to them.

What only a cluster knows is not checked: whether the pool is there, has room and takes the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from yaml.nodes import MappingNode, Node, ScalarNode

from peloton.client.foreign import recognised
from peloton.client.matching import normalized
from peloton.client.spec import Parsed, parse_all
from peloton.client.yamltree import SpecError, compose, entries
from peloton.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Checked:
    """One file and what is wrong with it."""

    file: str
    kind: str
    message: Message | None
    errors: Sequence[SpecError]
    warnings: Sequence[SpecError] = ()
    """What is taken, but will hardly work as meant."""
    parsed: Parsed[Any] | None = None
    """With the lines of its fields; None where it could not be read."""

    def plain(self) -> dict[str, Any]:
        """Return it as data for programs."""
        errors, warnings = _plain(self.errors), _plain(self.warnings)
        valid = not errors
        return {
            "file": self.file, "kind": self.kind, "valid": valid, "errors": errors, "warnings": warnings
        }  # fmt: skip


def _plain(found: Sequence[SpecError]) -> list[dict[str, Any]]:
    return [{"line": each.line, "path": each.path, "message": str(each)} for each in found]


def check(text: str, file: str, kind: str = "") -> Checked:
    """Check the spec in `text`, which is of a kind, or of the one that its keys show."""
    if foreign := recognised(text, file):
        return Checked(file, kind, None, foreign)
    try:
        root = compose(text, file)
    except SpecError as error:
        return Checked(file, kind, None, [error])
    kind = kind or kind_of(root)
    parsed = parse_all(message_type(kind), root, file)
    errors = list(parsed.errors) or _rules(parsed)
    warnings = [] if errors else [parsed.located(*note) for note in _NOTES[kind](parsed.message)]
    return Checked(file, kind, parsed.message, errors, warnings, parsed)


def broken_rule(parsed: Parsed[Any]) -> InvalidArgument | None:
    """Return the first rule that a spec breaks."""
    rule = next(rule for kind, rule in _RULES.items() if isinstance(parsed.message, message_type(kind)))
    try:
        rule(parsed.message)
    except InvalidArgument as error:
        return error
    return None


def kind_of(root: Node) -> str:
    """Return what a spec seems to be: `service` has a default_spec, `respool` has resources."""
    keys = set()
    if isinstance(root, MappingNode):
        keys = {normalized(key.value) for key, _ in entries(root) if isinstance(key, ScalarNode)}
    if keys & {"defaultspec", "instancespec"}:
        return "service"
    if keys & {"defaultconfig", "instanceconfig", "instancecount"}:
        return "job"
    return "respool" if keys & {"resources", "controllerlimit", "slacklimit", "policy"} else "job"


def message_type(kind: str) -> type[Message]:
    """Return the message that a kind of spec is read into."""
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.respool import respool_pb2
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    types: Mapping[str, type[Message]] = {
        "job": job_pb2.JobConfig,
        "service": stateless_pb2.JobSpec,
        "respool": respool_pb2.ResourcePoolConfig,
    }
    return types[kind]


def _rules(parsed: Parsed[Message]) -> list[SpecError]:
    broken = broken_rule(parsed)
    return [] if broken is None else [parsed.refused(broken.field, broken.what)]


def _check_job(config: Any) -> None:
    from peloton.wire.validation.job import check_new_daemon, validated

    validated(config)
    check_new_daemon(config)


def _check_service(spec: Any) -> None:
    from peloton.wire.validation.v1alpha import check_spec

    check_spec(spec)


_RULES: Mapping[str, Callable[[Any], object]] = {
    "job": _check_job,
    "service": _check_service,
    "respool": lambda config: None,
}


def _job_notes(config: Any) -> Sequence[tuple[str, str]]:
    from peloton.wire.validation.notes import notes

    return [(note.path, f"warning: {note.text}") for note in notes(config)]


def _service_notes(spec: Any) -> Sequence[tuple[str, str]]:
    from peloton.wire.v1alpha.job_config import job_config_of
    from peloton.wire.validation.notes import notes

    found = [note.v1alpha for note in notes(job_config_of(spec))]
    return [(note.path, f"warning: {note.text}") for note in found]


_NOTES: Mapping[str, Callable[[Any], Sequence[tuple[str, str]]]] = {
    "job": _job_notes,
    "service": _service_notes,
    "respool": lambda config: (),
}
KINDS = tuple(_RULES)
