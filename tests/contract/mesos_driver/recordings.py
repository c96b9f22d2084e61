"""The recorded traffic of a real Mesos, as far as these tests read it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4] / "shared" / "mesos"
needed = pytest.mark.skipif(not ROOT.is_dir(), reason=f"the recordings of a real Mesos are not at {ROOT}")


def scenarios() -> list[str]:
    """All there are; none without the recordings."""
    return sorted(folder.name for folder in ROOT.iterdir() if folder.is_dir()) if ROOT.is_dir() else []


def lines(scenario: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / scenario / "exchange.jsonl").open()]


def events(scenario: str) -> list[dict[str, Any]]:
    """Of the first subscription."""
    return [line for line in lines(scenario) if line["kind"] == "event" and line["conn"] == "subscribe"]


def body_of(line: dict[str, Any]) -> bytes:
    """As it was on the wire."""
    if line["encoding"] == "protobuf":
        return base64.b64decode(line["body"]["base64"])
    text: str = line.get("text") or json.dumps(line["body"], separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def pieces(scenario: str) -> Iterator[bytes]:
    """subscribe.raw, cut where each recv() ended."""
    raw = (ROOT / scenario / "subscribe.raw").read_bytes()
    for line in (ROOT / scenario / "subscribe.reads.jsonl").open():
        read = json.loads(line)
        yield raw[read["offset"] : read["offset"] + read["length"]]
