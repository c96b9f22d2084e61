"""For whom room of a host is held, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import Held


def held_text(held: Iterable[Held]) -> str:
    """Return a text such as `held for instances 0-29 of JOB until 2026-01-02T10:20:30Z`; empty for none."""
    parts = [
        f"{_instances(clean(each.instances))} of {clean(each.job_id)} until {each.until}" for each in held
    ]
    return f"held for {'; '.join(parts)}" if parts else ""


def _instances(text: str) -> str:
    return f"{'instance' if text.isdigit() else 'instances'} {text}"
