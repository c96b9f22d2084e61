"""What a cluster shows to programs: the JSON door as its documentation has it, metrics as dashboards ask."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from google.protobuf.json_format import MessageToJson
from openapi_spec_validator import OpenAPIV31SpecValidator
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
from prometheus_client.parser import text_string_to_metric_families

from minicluster.settings import DaemonSettings, Instances
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2

from ..promql import check, queries
from .conftest import Harness, harness_of, wait_for

ROOT = Path(__file__).resolve().parents[2]
DAEMONS = {"jobmgr", "resmgr", "hostmgr", "placement"}
SHOWN = {*DAEMONS, "archiver"}
"""The processes with metrics."""
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
DOOR = ROOT / "docs" / "json-door.md"


class Collector:
    """Takes traces by OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        collected = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collected.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *of: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(60)
        self._server.server_close()

    def trace(self, job_id: str) -> list[tuple[str, Span]]:
        """The spans of a job's trace, each with the name of the service that it is of."""
        wanted = uuid.UUID(job_id).bytes
        return [
            (service_of(part), span)
            for request in list(self.requests)
            for part in request.resource_spans
            for scope in part.scope_spans
            for span in scope.spans
            if span.trace_id == wanted
        ]


def service_of(part: ResourceSpans) -> str:
    return next(each.value.string_value for each in part.resource.attributes if each.key == "service.name")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("observed")
    traced = {"tracing": {"endpoint": collector.endpoint, "ratio": 1, "instances": 2}}
    settings = DaemonSettings(
        jobmgr={"shown_jobs": 10, **traced},
        resmgr=traced,
        hostmgr=traced,
        placement=traced,
        archiver={"archive": str(folder / "jobs.jsonl")},
    )
    with harness_of(tmp_path_factory, settings=settings, instances=Instances(web=1, archiver=1)) as held:
        yield held


@pytest.fixture(scope="module")
def door(harness: Harness) -> str:
    """The address of the JSON door."""
    [address] = harness.cluster.web_addresses()
    return f"http://{address}"


def metrics(harness: Harness) -> dict[str, set[str]]:
    """The labels of each metric that some daemon shows; those of metrics without a sample are not known."""
    found: dict[str, set[str]] = {}
    for part in harness.cluster.status():
        if part.name.rstrip("0123456789") not in SHOWN:
            continue
        with urllib.request.urlopen(f"http://{part.addresses['http']}/metrics", timeout=30) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for suffix in SUFFIXES.get(family.type, ("",)):
                    found.setdefault(family.name + suffix, set())
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_dashboards_and_alert_rules_ask_for_what_the_daemons_show(harness: Harness) -> None:
    job_id = harness.create(harness.config("sleep 600", 2))
    harness.running(job_id, 0)
    harness.running(job_id, 1)
    wait_for(lambda: bool(metrics(harness)["resmgr_pool_demand"]), 60)
    shown = metrics(harness)
    for query in queries():
        check(query, shown, unsampled=True)
    assert shown["jobmgr_job_tasks"] == {"job_id", "name", "state"}
    assert shown["hostmgr_capacity"] == {"kind"}
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a page, each block with the output that is shown below it."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for (kind, content), (next_kind, output) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == "sh":
            yield content, output if next_kind in ("json", "text") else ""


def test_the_examples_of_the_json_door_run(door: str, tmp_path: Path) -> None:
    mark = "--- end of a block ---"
    told = list(blocks(DOOR.read_text()))
    script = "set -eu\n" + "".join(f"{commands}\necho; echo '{mark}'\n" for commands, _ in told)
    result = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PELOTON": door},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, (result.stdout, result.stderr)
    outputs = [each.strip() for each in result.stdout.split(mark)]
    for (commands, expected), output in zip(told, outputs, strict=False):
        pattern = re.escape(expected.strip()).replace("…", ".*?")
        assert not expected or re.fullmatch(pattern, output), (commands, output)
    assert sum(bool(expected) for _, expected in told) >= 4
    assert len(told) == len(outputs) - 1
    OpenAPIV31SpecValidator(json.loads((tmp_path / "openapi.json").read_text())).validate()


def test_a_job_is_one_trace_from_create_to_running_through_all_daemons(
    harness: Harness, door: str, collector: Collector
) -> None:
    job_id, caller = str(uuid.uuid4()), f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"
    config = harness.config("sleep 600", 3)
    request = urllib.request.Request(
        f"{door}/api/peloton.api.v0.job.JobManager/Create",
        MessageToJson(job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_id), config=config)).encode(),
        {"content-type": "application/json", "traceparent": caller},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer) == {"jobId": {"value": job_id}}
    for instance in range(3):
        harness.running(job_id, instance)
    both = ("run", "enqueue", "queue", "place", "hand over", "launch", "start")
    expected = ["create", *both, *both]
    wait_for(lambda: len(collector.trace(job_id)) >= len(expected), 60)
    found = collector.trace(job_id)
    assert sorted(span.name for _, span in found) == sorted(expected)
    assert {service for service, _ in found} == {f"peloton-{role}" for role in DAEMONS}
    [create] = [span for _, span in found if span.name == "create"]
    runs = [span for _, span in found if span.name == "run"]
    assert not create.parent_span_id
    assert [link.trace_id.hex() for link in create.links] == [caller.split("-")[1]]
    assert {run.parent_span_id for run in runs} == {create.span_id}
    for run in runs:
        parts = [span for _, span in found if span.parent_span_id == run.span_id]
        assert sorted(part.name for part in parts) == sorted(both[1:])
        assert run.events[-1].name == "RUNNING"
        assert create.start_time_unix_nano <= run.start_time_unix_nano
        in_order = sorted(parts, key=lambda part: part.end_time_unix_nano)
        assert [part.name for part in in_order if part.name in both[2:5]] == list(both[2:5])
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)
