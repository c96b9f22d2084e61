"""The form of an archive: what a job becomes, line by line.

Each line is a JSON object. A job is a block of lines, from one of record `job` to one of record `end`; in
between are its configs (`config`), its tasks (`tasks`) and the events of each instance (`events`). Messages
are in protobuf's JSON form, those of the v0 API. The end names the number of lines before it and their
SHA-256 digest: a block without its end, or with another digest, was cut off and does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import rfc3339
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import PodEvent, TaskRuntime
from peloton.wire.job import job_runtime_to
from peloton.wire.payload import job_config
from peloton.wire.task import pod_event_to, runtime_to

FORMAT = 1
"""Version of the form, in each record `job`."""
TASKS_PER_LINE = 500


class Digest:
    """Number and digest of the lines of a block."""

    def __init__(self) -> None:
        self.lines = 0
        self._sha = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Count a line, given with its line feed."""
        self.lines += 1
        self._sha.update(line)

    def value(self) -> str:
        """Return the digest of the lines so far, in hexadecimal."""
        return self._sha.hexdigest()


@dataclass(slots=True)
class Block:
    """Encode the lines of one job, in order. `end` closes the block."""

    job_id: JobId
    digest: Digest = field(default_factory=Digest)

    def job(self, runtime: JobRuntime, now: int) -> bytes:
        """Return the first line. `now` is in nanoseconds since 1970."""
        shown = MessageToDict(job_runtime_to(runtime))
        return self._line("job", format=FORMAT, archived_at=rfc3339(now), runtime=shown)

    def config(self, spec: JobSpec) -> bytes:
        """Return the line of a version of the config."""
        return self._line("config", version=spec.version, config=MessageToDict(job_config(spec.payload)))

    def tasks(self, page: Mapping[int, TaskRuntime]) -> Iterator[bytes]:
        """Yield the lines of some tasks."""
        rows = list(page.items())
        for start in range(0, len(rows), TASKS_PER_LINE):
            some = rows[start : start + TASKS_PER_LINE]
            shown = {str(i): MessageToDict(runtime_to(self.job_id, i, task)) for i, task in some}
            yield self._line("tasks", tasks=shown)

    def events(self, instance: int, events: Sequence[PodEvent]) -> bytes:
        """Return the line of the events of an instance, newest first."""
        shown = [MessageToDict(pod_event_to(event)) for event in events]
        return self._line("events", instance=instance, events=shown)

    def end(self) -> bytes:
        """Return the last line."""
        return encoded(
            {
                "record": "end",
                "job_id": self.job_id,
                "lines": self.digest.lines,
                "sha256": self.digest.value(),
            }
        )

    def _line(self, record: str, **values: object) -> bytes:
        line = encoded({"record": record, "job_id": self.job_id, **values})
        self.digest.add(line)
        return line


def encoded(record: Mapping[str, object]) -> bytes:
    """Return a record as a line."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@dataclass(slots=True)
class ArchivedJob:
    """A job as it was when it was archived, in messages of the v0 API."""

    job_id: JobId
    archived_at: str
    runtime: job_pb2.RuntimeInfo
    configs: dict[int, job_pb2.JobConfig] = field(default_factory=dict)
    """By version."""
    tasks: dict[int, task_pb2.RuntimeInfo] = field(default_factory=dict)
    """By instance."""
    events: dict[int, list[task_pb2.PodEvent]] = field(default_factory=dict)
    """By instance, newest first."""

    @property
    def config(self) -> job_pb2.JobConfig:
        """The config of the version that the job had in the end."""
        return self.configs[self.runtime.configurationVersion]

    def info(self) -> job_pb2.JobInfo:
        """Return the job as JobManager's Get did."""
        info = job_pb2.JobInfo(config=self.config, runtime=self.runtime)
        info.id.value = self.job_id
        return info

    def add(self, record: Mapping[str, Any]) -> None:
        """Take a record between the first and the last one. Raises ValueError for one of another kind."""
        kind = record["record"]
        if kind == "config":
            self.configs[record["version"]] = ParseDict(record["config"], job_pb2.JobConfig())
        elif kind == "tasks":
            for instance, task in record["tasks"].items():
                self.tasks[int(instance)] = ParseDict(task, task_pb2.RuntimeInfo())
        elif kind == "events":
            found = [ParseDict(event, task_pb2.PodEvent()) for event in record["events"]]
            self.events[record["instance"]] = found
        else:
            raise ValueError(f"record: {kind!r} is not config, tasks or events")


def begun(record: Mapping[str, Any]) -> ArchivedJob:
    """Return the job of a record `job`. Raises ValueError for a form that this program does not know."""
    if record["format"] != FORMAT:
        raise ValueError(f"format: {record['format']!r} is not {FORMAT}: a newer program wrote it")
    runtime = ParseDict(record["runtime"], job_pb2.RuntimeInfo())
    return ArchivedJob(record["job_id"], record["archived_at"], runtime)
