from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from peloton.daemon.otlp import Exporter
from peloton.daemon.tracing import TRACES
from tests.unit.jobmgr_core.conftest import store as store
from tests.unit.resmgr.conftest import shell as shell

Begin = Callable[..., "Collected"]


class Collected:
    """The spans that an exporter in this process was given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


def instance(span: ReadableSpan) -> Any:
    return (span.attributes or {})["peloton.instance"]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins to trace with a ratio and a number of instances."""

    def _begin(ratio: float = 1.0, instances: int = 2) -> Collected:
        collected = Collected()
        TRACES.begin(
            Exporter(SimpleSpanProcessor(collected.exporter), {"service.name": "test"}), ratio, instances
        )
        return collected

    yield _begin
    TRACES.end()


@pytest.fixture
def spans(begin: Begin) -> Collected:
    return begin()
