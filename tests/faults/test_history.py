"""The master's record is read as it grows, and survives what a killed master left."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.history import EventLog, Run

RUN = "11111111-2222-3333-4444-555555555555-3-1"


def line(at: float, kind: str = "launch") -> str:
    return json.dumps({"at": at, "kind": kind, "run": RUN, "agent": "A"}) + "\n"


def test_a_missing_file_has_no_events(tmp_path: Path) -> None:
    assert EventLog(tmp_path / "mesos.jsonl").since(0) == []


def test_each_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "mesos.jsonl"
    log = EventLog(file)
    file.write_text(line(1.0) + line(2.0)[:20])
    assert [event.at for event in log.since(0)] == [1.0]
    file.write_text(line(1.0) + line(2.0) + line(3.0))
    assert [event.at for event in log.since(0)] == [1.0, 2.0, 3.0]
    assert log.since(0)[0].run == Run(RUN[:36], 3, 1)


def test_a_read_returns_new_events_and_all_agents(tmp_path: Path) -> None:
    file = tmp_path / "mesos.jsonl"
    file.write_text(line(1.0) + line(1.5, "agent") + line(2.0))
    assert [event.at for event in EventLog(file).since(2.0)] == [1.5, 2.0]


def test_an_incomplete_line_of_a_killed_master_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "mesos.jsonl"
    file.write_text(line(1.0)[:20] + "\n" + line(2.0))
    assert [event.at for event in EventLog(file).since(0)] == [2.0]
