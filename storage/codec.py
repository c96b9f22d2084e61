"""Model objects as JSON arrays, for columns that the database does not interpret.

An array holds the fields in the order of the tables below, to which fields are only appended: the last ones
are missing in what an older program wrote, and get the model's defaults. So the length of an array says which
release wrote it (`Codec.release`), and a program reads the rows of all releases before its own. Those of the
next release it reads, too, without their further fields: a leader that is further behind does not begin
(`storage.newer`). A task's runtime is encoded and decoded in a fifth of the time of its protobuf form.

A job's payload is bytes: those of the v0 API as they are, others behind a tag that names their API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields, is_dataclass, replace
from enum import IntEnum
from functools import cache
from json import encoder as json_encoder
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from peloton.errors import InvalidArgument
from peloton.model.accounting import Amounts, Group, JobHour, PeriodUsage
from peloton.model.host import HostInfo
from peloton.model.job import JobRuntime
from peloton.model.known_host import KnownHost, LossReason
from peloton.model.payload import ApiVersion, Payload, SecretRef
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.retry import RuleEnds
from peloton.model.schedule import ScheduleState
from peloton.model.states import HealthState, HostState, JobState, TaskState, TerminationReason
from peloton.model.task import PodEvent, TaskRuntime, Termination
from peloton.model.volume import Volume, VolumeState
from peloton.model.workflow import Range, Ranges, Workflow, WorkflowOptions, WorkflowState, WorkflowType
from storage.newer import unreadable_row

FIRST_RELEASE = "0.1"
_TAG = b"\0"
"""Before and after the name of a payload's API. No protobuf message begins with a zero byte."""
_SECRETS = b"secrets"
T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)
_APIS = {each.value.encode(): each for each in ApiVersion}
Decoders = Mapping[str, Callable[[Any], Any]]


def encode_payload(payload: Payload) -> bytes:
    """Encode a payload. One of the v0 API has no tag: rows of older programs have none.

    References to secrets come first, as JSON behind a tag of their own.
    """
    if payload.secrets:
        references = _encode([astuple(each) for each in payload.secrets]).encode()
        rest = encode_payload(replace(payload, secrets=()))
        return b"".join((_TAG, _SECRETS, _TAG, references, _TAG, rest))
    if payload.api is ApiVersion.V0:
        assert not payload.data.startswith(_TAG), "a v0 payload would be read as one with a tag"
        return payload.data
    return b"".join((_TAG, payload.api.value.encode(), _TAG, payload.data))


def decode_payload(data: bytes) -> Payload:
    """Decode a payload. Raises InvalidArgument for one of an API that is not known."""
    if not data.startswith(_TAG):
        return Payload(ApiVersion.V0, data)
    name, _, rest = data[1:].partition(_TAG)
    if name == _SECRETS:
        references, _, rest = rest.partition(_TAG)
        secrets = tuple(SecretRef(*values) for values in json.loads(references))
        return replace(decode_payload(rest), secrets=secrets)
    api = _APIS.get(name)
    if api is None:
        raise InvalidArgument("payload.api", name, f"one of {', '.join(each.value for each in ApiVersion)}")
    return Payload(api, rest)


def _nested(value: object) -> object:
    """Return the fields of a dataclass. What is in them comes here in turn: `astuple` would copy it."""
    if is_dataclass(value) and not isinstance(value, type):
        return _fields_of(type(value))(value)
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON")


@cache
def _fields_of(kind: type) -> Callable[[object], tuple[Any, ...]]:
    """Return what gives the values of all fields of a dataclass."""
    names = [each.name for each in fields(kind)]
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda value: (one(value),)
    return attrgetter(*names)


def _encoding() -> Callable[[object], str]:
    """Return what encodes. `JSONEncoder.encode` makes json's encoder anew each time, a third of its time."""
    make: Any = getattr(json_encoder, "c_make_encoder", None)
    if make is None:  # not with CPython
        return json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_nested).encode
    text = json_encoder.encode_basestring
    parts = make(None, _nested, text, None, ":", ",", False, False, True)
    return lambda value: "".join(parts(value, 0))


_encode = _encoding()


class Codec(Generic[T]):
    """Translate objects of one dataclass to JSON arrays and back.

    `names` are the fields in the array, separated by blanks. `older` completes an object of an array without
    the last ones, where their defaults are not what it means. `since` has the first field that a release
    added, by release in their order; the fields before are of 0.1.
    """

    def __init__(
        self,
        kind: type[T],
        names: str,
        decoders: Decoders,
        older: Callable[[T], T] | None = None,
        since: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._kind = kind
        self._names = tuple(names.split())
        self._values = attrgetter(*self._names)
        self._decoders = tuple(decoders.items())
        self._older = older
        self._decoded = tuple((self._names.index(name), decode) for name, decode in self._decoders)
        assert len(set(self._names)) == len(self._names), "a field is stored once"
        assert decoders.keys() <= set(self._names), "what is decoded is stored"
        self._setters = tuple(kind.__dict__[name].__set__ for name in self._names)
        self._size = len(fields(cast(Any, kind)))
        self._begins = tuple((self._names.index(name), release) for release, name in since.items())
        assert list(self._begins) == sorted(self._begins), "releases append fields"

    def encode(self, value: T) -> str:
        """Encode an object."""
        return _encode(self._values(value))

    def encoder(self) -> Callable[[T], str]:
        """Return an `encode` for a series in which neighbours often have equal encoded fields."""
        last: tuple[Any, ...] = ()
        text = ""

        def encode(value: T) -> str:
            nonlocal last, text
            values = self._values(value)
            if values != last:
                last, text = values, _encode(values)
            return text

        return encode

    def decode(self, text: str, **known: object) -> T:
        """Decode an object; `known` gives the fields that are not in the array."""
        return self.from_values(json.loads(text), **known)

    def picker(self, *names: str) -> Callable[[str], tuple[Any, ...]]:
        """Return a function that takes fields out of an array as stored, without making the object."""
        places = itemgetter(*map(self._names.index, names))
        return lambda text: places(json.loads(text))

    def place(self, name: str) -> int:
        """Return where a field is in the array."""
        return self._names.index(name)

    def release(self, count: int) -> str:
        """Return which release wrote an array of `count` fields, as MAJOR.MINOR; empty: one that is newer.

        Where several have the same fields, the first of them.
        """
        if count > len(self._names):
            return ""
        return next((release for place, release in reversed(self._begins) if count > place), FIRST_RELEASE)

    def from_values(self, values: list[Any], **known: object) -> T:
        """Decode an array that is parsed already; it may be changed.

        Raises Refused where it has what this program does not know, such as a state of a newer one.
        """
        try:
            if len(values) == len(self._names) == self._size:
                return self._whole(values)
            return self._made(values, known)
        except (LookupError, TypeError, ValueError) as error:
            raise unreadable_row(self._kind.__name__, self.release(len(values)), error) from error

    def _made(self, values: list[Any], known: Mapping[str, object]) -> T:
        fields: dict[str, Any] = dict(zip(self._names, values, strict=False))
        for name, decode in self._decoders:
            if name in fields:
                fields[name] = decode(fields[name])
        made = self._kind(**fields, **known)
        return self._older(made) if self._older is not None and len(values) < len(self._names) else made

    def _whole(self, values: list[Any]) -> T:
        """Build the object in half the time of its constructor: a new leader reads all tasks."""
        for place, decode in self._decoded:
            values[place] = decode(values[place])
        new = self._kind.__new__(self._kind)
        for put, value in zip(self._setters, values, strict=True):
            put(new, value)
        return new


def _by_number(kind: type[E]) -> Callable[[int], E]:
    """Return a lookup several times as fast as the enumeration; it raises KeyError for unknown numbers."""
    return {int(member): member for member in kind}.__getitem__


_task_state = _by_number(TaskState)
_job_state = _by_number(JobState)
_health = _by_number(HealthState)


def _termination(values: Sequence[Any] | None) -> Termination | None:
    return None if values is None else Termination(TerminationReason(values[0]), *values[1:])


def _rule_ends(values: Sequence[Any] | None) -> RuleEnds | None:
    return None if values is None else RuleEnds(*map(tuple, values))


def _schedule(values: Sequence[Any] | None) -> ScheduleState | None:
    if values is None:
        return None
    fields: list[Any] = [tuple(each) if isinstance(each, list) else each for each in values]
    return ScheduleState(*fields)


def _task_counts(values: Mapping[str, int]) -> dict[TaskState, int]:
    return {TaskState(int(state)): count for state, count in values.items()}


def _config_counts(values: Mapping[str, int]) -> dict[int, int]:
    return {int(version): count for version, count in values.items()}


def _kinds(values: Mapping[str, Sequence[Any]]) -> dict[str, KindConfig]:
    return {
        name: KindConfig(reservation, limit, share, ReservationType(type_))
        for name, (reservation, limit, share, type_) in values.items()
    }


def _ranges(values: Sequence[Sequence[int]]) -> Ranges:
    return tuple(Range(first, end) for first, end in values)


def _options(values: Sequence[Any]) -> WorkflowOptions:
    return WorkflowOptions(*values)


def _labels(values: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in values)


_THROTTLED = "Task throttled due to failure"
"""By this message alone, programs before the field `throttled` knew an instance that waits."""


_KILLED_BY = ("stopped by ", "restarted by ", "updated by ", "removed by ")
_KILLED_FOR = ("preempted: ", "maintenance of ")
"""Messages of runs began with these, before the field `killed_for`, that were killed by or for somebody."""
_PREVIOUS_END = re.compile(r"run ([0-9]+) (SUCCEEDED|FAILED|KILLED|LOST)(?::|\Z)")
"""The message of a run that waited began so, before the field `previous_state`."""


def _older_runtime(task: TaskRuntime) -> TaskRuntime:
    """Complete the row of an older program, which knew by messages alone what now has fields."""
    return replace(
        task,
        throttled=task.throttled or task.message == _THROTTLED,
        killed_for=_killed_for_by_message(task),
        previous_state=_previous_state_by_message(task),
    )


def _killed_for_by_message(task: TaskRuntime) -> str:
    message, known = task.message, task.message.startswith((*_KILLED_BY, *_KILLED_FOR))
    if task.termination is None or not known or task.state not in (TaskState.KILLING, TaskState.KILLED):
        return ""
    if task.state is TaskState.KILLING:
        return message
    if message.startswith(_KILLED_BY):
        return message.partition("; ")[0]
    # What Mesos says comes last; the reason itself may have several parts.
    return message.rpartition("; ")[0] or message


def _previous_state_by_message(task: TaskRuntime) -> TaskState:
    told = _PREVIOUS_END.match(task.message)
    known = told is not None and int(told[1]) == task.previous_run
    return TaskState[told[2]] if told is not None and known else TaskState.UNKNOWN


TASK_RUNTIME = Codec(
    TaskRuntime,
    (
        "state goal run config_version desired_config_version desired_run previous_run host agent_id ports "
        "start_time completion_time message reason failure_count health termination desired_host volume_id "
        "resource_usage revision created_at updated_at throttled killed_for previous_state "
        "saved_at rule_ends"
    ),
    {
        "state": _task_state,
        "goal": _task_state,
        "health": _health,
        "termination": _termination,
        "previous_state": _task_state,
        "rule_ends": _rule_ends,
    },
    older=_older_runtime,
    since={"0.2": "throttled"},
)
JOB_RUNTIME = Codec(
    JobRuntime,
    (
        "state goal config_version creation_time start_time completion_time task_counts config_counts "
        "workflow_version state_version desired_state_version update_id resource_usage revision updated_at "
        "goal_by released unmet schedule suspended"
    ),
    {
        "state": _job_state,
        "goal": _job_state,
        "task_counts": _task_counts,
        "config_counts": _config_counts,
        "unmet": tuple,
        "schedule": _schedule,
    },
    since={"0.2": "released"},
)
POD_EVENT = Codec(
    PodEvent,
    (
        "state goal config_version desired_config_version previous_run desired_run agent_id hostname message "
        "reason health termination"
    ),
    {"state": _task_state, "goal": _task_state, "health": _health, "termination": _termination},
)
"""Without job_id, instance, run and timestamp, which are the row's key."""
POOL = Codec(
    PoolConfig,
    (
        "id name parent kinds owning_team ldap_groups description controller_limit_percent "
        "slack_limit_percent version created_at updated_at updated_by"
    ),
    {"kinds": _kinds, "ldap_groups": tuple},
)
WORKFLOW = Codec(
    Workflow,
    (
        "id job_id type state options config_version previous_version ranges added updated removed "
        "opaque_data previous_state rolling_back aborting done failed remaining reason workflow_version "
        "revision created_at updated_at completed_at by"
    ),
    {
        "type": WorkflowType,
        "state": WorkflowState,
        "previous_state": WorkflowState,
        "options": _options,
        "ranges": _ranges,
        "added": _ranges,
        "updated": _ranges,
        "removed": _ranges,
    },
)
VOLUME = Codec(
    Volume,
    "id job_id instance hostname size_mb container_path state goal created_at updated_at",
    {"state": VolumeState, "goal": VolumeState},
)
HOST = Codec(
    HostInfo,
    "hostname ip state goal labels current_pool desired_pool since begun_by",
    {"state": HostState, "goal": HostState, "labels": _labels},
)


def _amounts(values: Sequence[int]) -> Amounts:
    return Amounts(*values)


def labels_of(values: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Decode keys with values."""
    return tuple((key, value) for key, value in values)


def _group(values: Sequence[Any]) -> Group:
    return Group(values[0], values[1], labels_of(values[2]))


JOB_HOUR = Codec(
    JobHour,
    "group before total",
    {"group": _group, "before": _amounts, "total": _amounts},
    since={"0.2": "group"},
)
"""Without job_id and hour, which are the row's key."""
PERIOD = Codec(PeriodUsage, "group amounts", {"group": _group, "amounts": _amounts}, since={"0.2": "group"})
"""Without seconds and start, which are the row's key."""
KNOWN_HOST = Codec(
    KnownHost,
    "hostname ip labels agents lost_since reason tasks task_count",
    {"labels": _labels, "agents": tuple, "reason": LossReason, "tasks": tuple},
    since={"0.2": "hostname"},
)
