"""Spans to a collector of OpenTelemetry. The only module that needs its packages (`peloton[tracing]`)."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode

from peloton import __version__
from peloton.daemon.spans import PARENT, Span, Spans

QUEUE = 10_000
"""Spans that wait to be sent; the oldest are dropped, with a warning."""
PER_REQUEST = 500
PAUSE_SECONDS = 1.0
CALL_SECONDS = 5.0
CLOSE_SECONDS = 2.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("peloton", __version__)


def exporter(endpoint: str, resource: Mapping[str, str]) -> Spans:
    """Return what sends spans to `endpoint` by OTLP over HTTP, from a thread of its own."""
    return Exporter(
        BatchSpanProcessor(
            OTLPSpanExporter(endpoint, timeout=CALL_SECONDS),
            max_queue_size=QUEUE,
            schedule_delay_millis=PAUSE_SECONDS * 1000,
            max_export_batch_size=PER_REQUEST,
        ),
        resource,
    )


class Exporter:
    """Hands spans to a processor of OpenTelemetry's SDK."""

    def __init__(self, processor: SpanProcessor, resource: Mapping[str, str]) -> None:
        self._processor = processor
        self._resource = Resource.create(dict(resource))

    def put(self, span: Span) -> None:
        """Take a span. Never blocks."""
        self._processor.on_end(self._translated(span))

    def close(self) -> None:
        """Send what is left, for CLOSE_SECONDS at most: a collector that is away delays nobody's end."""
        closing = Thread(target=self._processor.shutdown, name="end of traces", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _translated(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=_SAMPLED),
            parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=dict(span.attributes),
            events=[Event(name, timestamp=time) for time, name in span.steps],
            links=_links(span.caller),
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=span.start,
            end_time=max(span.start, span.end),
            instrumentation_scope=_SCOPE,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=_SAMPLED)


def _links(caller: str) -> list[Link]:
    """Return a link to the caller's span; none where the text is no such span."""
    found = get_current_span(TraceContextTextMapPropagator().extract({PARENT: caller})) if caller else None
    return [] if found is None or not found.get_span_context().is_valid else [Link(found.get_span_context())]
