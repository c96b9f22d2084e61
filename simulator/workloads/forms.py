"""The formats of traces. Apart, so that the command line starts fast."""

from __future__ import annotations

FORMATS = ("archive", "audit", "jsonl", "kueue", "openb", "philly", "swf")
