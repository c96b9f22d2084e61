"""What leaders and owners of shards did, as they recorded it themselves (`tests.faults.recording_daemon`).

One JSON object a line: `kind` and `role`, `term`, `who` (a process), `at` and `until` (seconds since the
epoch: when it was begun and when it had come through), and `what`.

======  =========================================================================================
kind    what
======  =========================================================================================
term    the store took the term: this process leads from then on. `what` is empty
over    the process has left the role of its own accord. `what` is empty
write   a write that the store took; `what` names it
launch  a launch that was handed to Mesos; `what` is the run's Mesos id. It need not have arrived
kill    the same of a kill
shards  the store took the terms of shards: this process owns them from then on. `what` is the claim
asked   a job manager asked for a launch, and the host manager took it; `what` is the run's Mesos id
======  =========================================================================================

What concerns a job has its id in `job`, and in `owned` the term in which its shard was owned when it was
begun, 0 where it was not. `term` is 0 in what is not done as a leader.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LeaderAction:
    kind: str
    role: str
    term: int
    who: str
    at: float
    until: float
    what: str = ""
    job: str = ""
    owned: int = 0


@dataclass(slots=True)
class ActionLog:
    """Reads the files of a folder, each line once."""

    folder: Path
    _offsets: dict[Path, int] = field(default_factory=dict)
    _read: list[LeaderAction] = field(default_factory=list)

    def since(self, when: float) -> list[LeaderAction]:
        """What was over at `when` or later, and all terms, of shards too, by their beginning."""
        for file in sorted(self.folder.glob("*.jsonl")):
            self._go_on(file)
        self._read = [each for each in self._read if each.kind in ("term", "shards") or each.until >= when]
        return sorted(self._read, key=lambda action: action.at)

    def _go_on(self, file: Path) -> None:
        """A last line that a killed process left unfinished stays unread."""
        with file.open("rb") as opened:
            opened.seek(self._offsets.get(file, 0))
            lines, _, _ = opened.read().rpartition(b"\n")
        if lines:
            self._offsets[file] = self._offsets.get(file, 0) + len(lines) + 1
            self._read += [LeaderAction(**json.loads(line)) for line in lines.split(b"\n")]
