"""Recordings of a real Mesos, and how each is played."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).resolve().parents[4] / "shared" / "mesos"
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recording and how it is played.

    ``skip``: beginnings of notes whose part is left out (its offers are declined, for the next part's sake).
    ``until``: the note at which to stop. ``drop``: connections, and types of calls, left out. ``paths``: a
    regular expression; only requests to such paths are played. ``edits``: texts replaced in requests.
    ``scale``: what refuse_seconds, kill policies and max_completion_time are multiplied by.
    ``accept_scale``: the same for filters of ACCEPT; ``revive``: lift them when an offer is waited for.
    ``late``: masters that are started only when all others of the same moment are. ``held``: beginning of the
    note from which on agents stand still, until something is expected that takes one.
    ``pause``: seconds to wait after hanging up. ``pace``: how much of the recorded time to let pass before a
    request. ``ignored``: ends of paths in JSON that are not compared.
    """

    name: str
    skip: tuple[str, ...] = ()
    until: str | None = None
    scale: float = 0.1
    accept_scale: float = 0.2
    revive: bool = False
    pause: float = 0.0
    pace: float = 0.0
    paths: str = "/"
    late: tuple[str, ...] = ()
    held: str | None = None
    drop: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    ignored: frozenset[str] = frozenset({".agent_info.checkpoint", ".agents.capabilities"})
    master_flags: tuple[str, ...] = ("--allocation-interval", "0.1")
    agent_flags: tuple[str, ...] = ()


def records(name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a recording."""
    with (RECORDINGS / name / "exchange.jsonl").open() as file:
        for line in file:
            yield json.loads(line)


def parts(scenario: Scenario) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the records to play, each with whether its part is skipped."""
    skipping = False
    dropped: set[str] = set()
    for record in records(scenario.name):
        if record["kind"] == "note":
            text = record["text"]
            if scenario.until is not None and text.startswith(scenario.until):
                return
            acts = re.match(r"start [\w-]+: /|SIG", text) is not None or "exit code" in text
            if not acts:
                skipping = text.startswith(scenario.skip) if scenario.skip else False
        if record["kind"] == "request" and _is_dropped(scenario, record):
            dropped.add(record["conn"])
        if record["conn"] not in dropped:
            yield record, skipping


def _is_dropped(scenario: Scenario, record: dict[str, Any]) -> bool:
    body = record.get("decoded", record["body"])
    kind = body.get("type") if isinstance(body, dict) else None
    wanted = re.match(scenario.paths, record["path"]) is not None
    return not wanted or record["conn"] in scenario.drop or kind in scenario.drop
