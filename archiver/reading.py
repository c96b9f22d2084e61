"""Read an archive back: `peloton-archive list FILE`, `peloton-archive get FILE JOB`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf.json_format import MessageToDict

from archiver.records import ArchivedJob, Digest, begun
from peloton.errors import NotFound, PelotonError
from peloton.model.ids import JobId


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a job stands in an archive, and what lists show of it."""

    job_id: JobId
    created: str
    """Creation time. With the id it tells a job from a later one that was given the same id."""
    completed: str
    state: str
    name: str
    archived_at: str
    offset: int
    """Of the first line, in bytes."""


class Archive:
    """The jobs of an archive. One that was archived more than once is there once, as written last."""

    def __init__(self, path: Path) -> None:
        """Read the file once. Raises OSError, and PelotonError for what a newer program wrote."""
        self._path = path
        self._entries: dict[tuple[JobId, str], Entry] = {}
        with path.open("rb") as file:
            for entry in _entries(file, path):
                self._entries[entry.job_id, entry.created] = entry

    def entries(self) -> Sequence[Entry]:
        """Return all jobs, in the order in which they were first archived."""
        return tuple(self._entries.values())

    def jobs(self) -> Iterator[ArchivedJob]:
        """Yield all jobs with all that was archived of them."""
        return map(self.read, self.entries())

    def get(self, job_id: JobId) -> ArchivedJob:
        """Return a job, the last one of this id. Raises NotFound."""
        found = [entry for entry in self._entries.values() if entry.job_id == job_id]
        if not found:
            raise NotFound(f"{self._path}: job {job_id} is not in this archive")
        return self.read(max(found, key=lambda entry: entry.created))

    def read(self, entry: Entry) -> ArchivedJob:
        """Return the job of an entry."""
        with self._path.open("rb") as file:
            file.seek(entry.offset)
            job = begun(json.loads(file.readline()))
            for line in file:
                record = json.loads(line)
                if record["record"] == "end":
                    break
                job.add(record)
        return job


class _Open:
    """A block that has begun."""

    def __init__(self, record: dict[str, Any], offset: int, path: Path) -> None:
        try:
            self.job = begun(record)
        except ValueError as error:
            raise PelotonError(f"{path}, byte {offset}: {error}") from None
        self.offset = offset
        self.digest = Digest()
        self.names: dict[int, str] = {}

    def entry(self) -> Entry:
        """Return the entry of the complete block."""
        runtime = self.job.runtime
        shown = MessageToDict(runtime)
        return Entry(
            self.job.job_id,
            runtime.creationTime,
            runtime.completionTime,
            str(shown.get("state", "")),
            self.names.get(runtime.configurationVersion, ""),
            self.job.archived_at,
            self.offset,
        )


def _entries(file: BinaryIO, path: Path) -> Iterator[Entry]:
    """Yield the complete blocks of a file. What was cut off is passed over."""
    opened: _Open | None = None
    offset = 0
    for line in file:
        record = _record(line)
        kind = record.get("record")
        if kind == "job":
            opened = _Open(record, offset, path)
        if opened is not None:
            if record.get("job_id") != opened.job.job_id:
                opened = None
            elif kind == "end":
                whole = (record.get("lines"), record.get("sha256"))
                if whole == (opened.digest.lines, opened.digest.value()):
                    yield opened.entry()
                opened = None
            else:
                opened.digest.add(line)
                if kind == "config":
                    opened.names[record["version"]] = record["config"].get("name", "")
        offset += len(line)


def _record(line: bytes) -> dict[str, Any]:
    """Return the record of a line, an empty one for a line that was cut off."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _shown(job: ArchivedJob) -> dict[str, object]:
    return {
        "job": MessageToDict(job.info()),
        "archivedAt": job.archived_at,
        "configs": {version: MessageToDict(config) for version, config in job.configs.items()},
        "tasks": {instance: MessageToDict(task) for instance, task in job.tasks.items()},
        "events": {i: [MessageToDict(event) for event in events] for i, events in job.events.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser("peloton-archive", description="Read what peloton-archiver wrote.")
    actions = parser.add_subparsers(dest="action", required=True)
    for name, about in (("list", "list the jobs of an archive"), ("get", "print a job as JSON")):
        action = actions.add_parser(name, help=about, description=about)
        action.add_argument("file", type=Path)
        if name == "get":
            action.add_argument("job")
    options = parser.parse_args(argv)
    try:
        archive = Archive(options.file)
        if options.action == "get":
            print(json.dumps(_shown(archive.get(options.job)), indent=2, ensure_ascii=False))
        else:
            for entry in archive.entries():
                print(f"{entry.job_id}  {entry.state:<9}  {entry.completed}  {entry.name}")
    except (PelotonError, OSError) as error:
        print(f"peloton-archive: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
