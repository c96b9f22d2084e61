"""Parts of traces, whoever takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Attributes = Mapping[str, str | int | float | bool]
PARENT = "traceparent"
"""Metadata of a call by W3C Trace Context: the span that the caller is in."""


class Span(NamedTuple):
    """A part of a trace that has ended. Times are nanoseconds since 1970."""

    trace_id: int
    span_id: int
    parent_id: int
    """0 for the first span of the trace."""
    name: str
    start: int
    end: int
    attributes: Attributes
    error: str = ""
    """Why it failed; empty where it did not."""
    steps: Sequence[tuple[int, str]] = ()
    """What happened meanwhile, with the time."""
    caller: str = ""
    """The span of the client that asked for it, by W3C Trace Context."""


class Spans(Protocol):
    """Takes spans that have ended."""

    def put(self, span: Span) -> None:
        """Take a span. Never blocks."""
        ...

    def close(self) -> None:
        """Send what is left, for a short time."""
        ...
