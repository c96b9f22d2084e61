"""Tabulate in docs/rpcs.md what the daemons of a cluster serve, by calling every method of the interface.

    python -m tests.cluster.served      # start a cluster, call it, write the tables into docs/rpcs.md

A method counts as served unless the answer is UNIMPLEMENTED. Requests are empty: most are refused, but that
is an answer. Use a cluster that nobody else uses: some calls change what the daemons do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "rpcs.md"
BEGIN, END = "<!-- served: begin -->\n", "<!-- served: end -->\n"
ROLES = ("jobmgr", "resmgr", "hostmgr")
AT_ONCE = 8
SECONDS = 10.0
"""For an answer. Some methods wait for something to tell; one that is not served answers at once."""
SHORT = {"peloton.api.v0.": "v0", "peloton.api.v1alpha.": "v1alpha", "peloton.private.": "private"}


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a service's methods, and which daemons serve any of them."""

    service: ServiceDescriptor
    roles: Sequence[str]
    methods: Sequence[str]

    def row(self) -> str:
        name = str(self.service.full_name)
        prefix = next(each for each in SHORT if name.startswith(each))
        missing = [method.name for method in self.service.methods if method.name not in self.methods]
        cells = (
            SHORT[prefix],
            name.removeprefix(prefix),
            ", ".join(self.roles),
            ", ".join(self.methods),
            ", ".join(missing),
        )
        return f"| {' | '.join(cell or '–' for cell in cells)} |"


def block(harness: Harness) -> str:
    """The page's part on what is served."""
    types = [f"| {name} | {'yes' if runs else 'not yet'} |" for name, runs in job_types(harness).items()]
    rows = [each.row() for each in served(harness.cluster)]
    return "\n".join(
        [
            "| Job type | Runs |",
            "|---|---|",
            *types,
            "",
            "| API | Service | Daemon | Served | Not yet |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def job_types(harness: Harness) -> Mapping[str, bool]:
    """Whether a job of each type is taken."""
    found = {}
    for name, number in job_pb2.JobType.items():
        config = harness.config("true", 0 if number == job_pb2.DAEMON else 1, type=number)
        config.sla.Clear()
        config.defaultConfig.ClearField("restartPolicy")
        request = job_pb2.CreateRequest(config=config)
        answer = harness.client.job_svc.Create(request, timeout=30)
        refused = answer.error.invalidConfig.message
        assert bool(refused) != bool(answer.jobId.value), answer
        assert not refused or "is not run by this server yet" in refused, refused
        found[name] = not refused
        if not refused:
            harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=answer.jobId), timeout=30)
            harness.ended(answer.jobId.value)
            harness.client.job_svc.Delete(
                job_pb2.DeleteRequest(id=peloton_pb2.JobID(value=answer.jobId.value)), timeout=30
            )
    return found


def served(cluster: Cluster) -> list[Served]:
    """Of every service, in the order of the table."""
    addresses = {part.kind: part.addresses["grpc"] for part in cluster.components() if part.kind in ROLES}
    channels = {role: grpc.insecure_channel(addresses[role]) for role in ROLES}
    try:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return [_asked(service, channels, threads) for service in services()]
    finally:
        for channel in channels.values():
            channel.close()


def services() -> list[ServiceDescriptor]:
    """All of the interface."""
    found = [
        service
        for file in (ROOT / "proto" / "peloton").rglob("*.proto")
        for service in _module(file).DESCRIPTOR.services_by_name.values()
    ]
    order = list(SHORT)
    return sorted(
        found,
        key=lambda service: (
            next(i for i, prefix in enumerate(order) if service.full_name.startswith(prefix)),
            service.full_name,
        ),
    )


def _module(file: Path) -> Any:
    return import_module(".".join(file.relative_to(ROOT / "proto").with_suffix("").parts) + "_pb2")


def _asked(
    service: ServiceDescriptor, channels: Mapping[str, grpc.Channel], threads: ThreadPoolExecutor
) -> Served:
    methods = list(service.methods)
    roles: list[str] = []
    names: set[str] = set()
    for role, channel in channels.items():
        answers = threads.map(lambda method, at=channel: _answers(at, service, method), methods)
        found = {method.name for method, answer in zip(methods, answers, strict=True) if answer}
        names |= found
        roles += [role] if found else []
    return Served(service, roles, [method.name for method in methods if method.name in names])


def _answers(channel: grpc.Channel, service: ServiceDescriptor, method: MethodDescriptor) -> bool:
    path = f"/{service.full_name}/{method.name}"
    try:
        if method.server_streaming:
            next(iter(channel.unary_stream(path, bytes, bytes)(b"", timeout=SECONDS)), None)
        else:
            channel.unary_unary(path, bytes, bytes)(b"", timeout=SECONDS)
    except grpc.RpcError as error:
        return bool(error.code() is not grpc.StatusCode.UNIMPLEMENTED)
    return True


def split(text: str) -> tuple[str, str, str]:
    """The page before the block, the block, and what comes behind it."""
    before, begin, rest = text.partition(BEGIN)
    inside, end, behind = rest.partition(END)
    assert begin and end, f"{PAGE.name} has no {BEGIN.strip()} … {END.strip()}"
    return before + begin, inside, end + behind


def write() -> int:
    with temporary_cluster(
        ClusterSettings(ports="free"), lambda line: print(line, file=sys.stderr)
    ) as cluster:
        text = block(Harness(cluster))
    before, _, behind = split(PAGE.read_text())
    PAGE.write_text(before + text + behind)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("served", write))
