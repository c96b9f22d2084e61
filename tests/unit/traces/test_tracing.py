"""Which jobs are traced, what their spans are, and what is done with them."""

from __future__ import annotations

import builtins
import subprocess
import sys
import time
import uuid
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry.trace.status import StatusCode

from peloton.config.errors import ConfigError
from peloton.config.settings import TracingSettings
from peloton.daemon import tracing
from peloton.daemon.otlp import exporter
from peloton.daemon.spans import Span
from peloton.daemon.tracing import TRACES, Traces, note_caller
from peloton.model.ids import Run
from tests.unit.traces.conftest import Begin, Collected

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
NEVER = Run(JOB, 0, 1)


class Nowhere:
    def put(self, span: Span) -> None:
        raise AssertionError(span)

    def close(self) -> None:
        """Nothing is left."""


class Call:
    def __init__(self, *metadata: tuple[str, str]) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata


def test_nothing_is_traced_unless_it_is_asked_for() -> None:
    tracing.start(TracingSettings(), {})
    assert (TRACES.on, TRACES.now(), TRACES.follows(NEVER), TRACES.traced([f"{JOB}-0-1"])) == (
        False,
        0,
        False,
        [],
    )
    TRACES.part(NEVER, "place", 1, 2, {})


def test_all_daemons_choose_the_same_jobs_about_as_many_as_asked_for() -> None:
    jobs = [str(uuid.UUID(int=number * 0x9E3779B97F4A7C15 % 2**128, version=4)) for number in range(1, 4001)]
    one, other, most = Traces(), Traces(), Traces()
    one.begin(Nowhere(), 0.1, 10)
    other.begin(Nowhere(), 0.1, 10)
    most.begin(Nowhere(), 0.2, 10)
    chosen = [job for job in jobs if one.follows_job(job)]
    assert chosen == [job for job in jobs if other.follows_job(job)]
    assert 300 <= len(chosen) <= 500
    assert all(most.follows_job(job) for job in chosen), "a larger part holds the smaller one"


def test_of_a_job_the_first_instances_are_traced() -> None:
    traces = Traces()
    traces.begin(Nowhere(), 1.0, 2)
    assert [traces.follows(Run(JOB, instance, 3)) for instance in range(4)] == [True, True, False, False]
    assert traces.traced([f"{JOB}-1-1", f"{JOB}-2-1", "foreign", f"{JOB}-0-9"]) == [
        Run(JOB, 1, 1),
        Run(JOB, 0, 9),
    ]
    assert not traces.follows_job("00000000-0000-0000-0000-000000000000"), "an id that no trace may have"


def test_a_ratio_of_zero_traces_nothing() -> None:
    traces = Traces()
    traces.begin(Nowhere(), 0.0, 2)
    assert not traces.on


def test_the_spans_of_a_job_are_one_trace_with_the_job_s_id(spans: Collected) -> None:
    TRACES.job(JOB, 5, {"peloton.job.name": "web"})
    TRACES.run(Run(JOB, 1, 2), 10, 30, {"peloton.host": "h"}, [(20, "LAUNCHED")])
    TRACES.part(Run(JOB, 1, 2), "place", 12, 15, {}, "no host fits")
    create, run, place = spans.one("create"), spans.one("run"), spans.one("place")
    assert {span.context.trace_id for span in (create, run, place)} == {uuid.UUID(JOB).int}
    assert create.parent is None
    assert run.parent is not None and run.parent.span_id == create.context.span_id
    assert place.parent is not None and place.parent.span_id == run.context.span_id
    assert len({span.context.span_id for span in (create, run, place)}) == 3
    assert (run.start_time, run.end_time) == (10, 30)
    assert [(event.name, event.timestamp) for event in run.events] == [("LAUNCHED", 20)]
    assert (run.attributes or {}) == {
        "peloton.job_id": JOB,
        "peloton.instance": 1,
        "peloton.run": 2,
        "peloton.host": "h",
    }
    assert run.status.status_code is StatusCode.UNSET
    assert (place.status.status_code, place.status.description) == (StatusCode.ERROR, "no host fits")
    assert create.resource.attributes["service.name"] == "test"


def test_the_first_span_is_linked_with_the_span_of_the_client(spans: Collected) -> None:
    def create(*metadata: tuple[str, str]) -> None:
        note_caller(Call(*metadata))
        TRACES.job(JOB, 1, {})

    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    copy_context().run(create, ("rpc-caller", "x"), ("traceparent", given))
    copy_context().run(create)
    copy_context().run(create, ("traceparent", "nonsense"))
    links = [[link.context.trace_id for link in span.links] for span in spans.all]
    assert links == [[0x0AF7651916CD43DD8448EB211C80319C], [], []]


def test_what_is_left_when_a_process_ends_is_sent(begin: Begin) -> None:
    begin()
    TRACES.end()
    assert not TRACES.on
    TRACES.end()


def test_a_collector_that_is_away_delays_no_end() -> None:
    away = exporter("http://127.0.0.1:9/v1/traces", {})
    away.put(Span(1, 2, 0, "create", 1, 2, {}))
    begun = time.monotonic()
    away.close()
    assert time.monotonic() - begun < 30


def test_without_the_packages_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "peloton.daemon.otlp":
            raise ImportError(name="opentelemetry")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError, match=r"opentelemetry is not installed: install peloton\[tracing\]"):
        tracing.start(TracingSettings(endpoint="http://127.0.0.1:4318/v1/traces"), {})
    assert not TRACES.on


def test_an_endpoint_is_an_address() -> None:
    with pytest.raises(ValueError, match="is not the address of a collector"):
        TracingSettings(endpoint="127.0.0.1:4318")


def test_the_packages_are_not_loaded_while_nothing_is_traced() -> None:
    program = (
        "import sys, jobmgr.__main__, resmgr.__main__, placement.__main__, hostmgr.__main__\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert result.stdout == "[]\n"
