"""``python -m minicluster.kubernetes.kubelet``: registers a node, and runs the pods that are bound to it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import NoReturn

from minicluster.kubernetes.kubelet.node import node_object, register, renew_lease
from minicluster.kubernetes.kubelet.pods import Pods
from minicluster.kubernetes.kubelet.processes import Processes
from minicluster.kubernetes.kubelet.server import KubeletServer
from minicluster.kubernetes.kubelet.translation import CannotBeRun, quantity
from minicluster.kubernetes.kubelet.volumes import LocalVolumes
from minicluster.mesos.agent.isolation import NOTHING
from minicluster.mesos.agent.launcher import Images, Launcher
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.task_limits import TaskLimits, Wanted, detect, lacking
from minicluster.mesos.common import resource_notation
from minicluster.mesos.common.modes import PASSABLE
from minicluster.mesos.common.server_process import (
    CannotRun,
    listen,
    prepare_directory,
    run,
    server_tls,
    tell,
    write_ready_file,
)
from peloton.config.errors import ConfigError
from peloton.config.private import keep_private
from peloton.errors import Unavailable
from peloton.kubernetes.access import Access, from_kubeconfig
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.tasks import until_first_ends

NAME = "kubelet"
LEASE_SECONDS = 10.0
RETRY_SECONDS = 1.0
say = partial(tell, NAME)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description=__doc__)
    add = parser.add_argument
    add("--kubeconfig", type=Path, required=True, help="file that names the API server")
    add("--node", required=True, help="name of the node")
    add("--ip", default="127.0.0.1", help="address of the node and its pods")
    add("--cpu", default="4", help="what it can allocate, as Kubernetes writes amounts")
    add("--memory", default="2048Mi")
    add("--storage", default="20000Mi", help="ephemeral storage")
    add("--ports", default="", help="ports that Peloton's tasks may take: FIRST-LAST, with commas between")
    add("--labels", default="", help="labels of the node: KEY=VALUE, with commas between them")
    add("--tls-certificate", type=Path, help="PEM file: serve logs and commands to the API server")
    add("--tls-key", type=Path, help="PEM file of its key")
    add("--tls-client-ca", type=Path, help="PEM file of the authority of callers, which need a certificate")
    add("--work-dir", type=Path, required=True, help="where sandboxes and records are kept")
    add("--ready-file", type=Path, help="written once the node is registered: JSON with pid and node")
    return parser


def _labels(text: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in text.split(",") if each]
    for key, sign, value in pairs:
        if not key or not sign:
            raise CannotRun(f"--labels: {key or value!r} is not KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _amounts(options: argparse.Namespace) -> dict[str, str]:
    return {"cpu": options.cpu, "memory": options.memory, "ephemeral-storage": options.storage}


def _allocatable(amounts: Mapping[str, str]) -> dict[str, Fraction]:
    try:
        return {name: quantity(text) for name, text in amounts.items()}
    except CannotBeRun as error:
        raise CannotRun(f"--cpu, --memory or --storage: {error}") from error


def _access(path: Path) -> Access:
    try:
        return from_kubeconfig(path)
    except ConfigError as error:
        raise CannotRun(f"--kubeconfig: {error}") from error


def _launcher(layout: Layout, allocatable: Mapping[str, Fraction]) -> Launcher:
    memory_mb = allocatable["memory"] / 2**20
    total = resource_notation.parse_resources(f"cpus:{float(allocatable['cpu']):g};mem:{float(memory_mb):g}")
    found = detect(layout, Wanted(), total)
    if text := lacking(found):
        say(text)
    return Launcher(layout, TaskLimits(found.cgroups, Wanted(), say), Images.PLAIN, NOTHING)


async def _serve(options: argparse.Namespace) -> None:
    amounts, labels, access = _amounts(options), _labels(options.labels), _access(options.kubeconfig)
    allocatable = _allocatable(amounts)
    prepare_directory(options.work_dir, "--work-dir")
    layout = Layout(options.work_dir.absolute())
    layout.make()
    async with ApiClient(access) as client:
        pods = Pods(client, allocatable, options.ip, say)
        processes = Processes(layout, _launcher(layout, allocatable), options.node, pods)
        volumes = LocalVolumes(client, options.node, layout, pods.uses, say)
        pods.attach(processes, volumes)
        server, port = KubeletServer(processes, pods.uid_of), 0
        if (tls := _tls(options)) is not None:
            listener = listen(options.ip, 0)
            port = int(listener.getsockname()[1])
            await server.serve(listener, tls)
        node = node_object(options.node, amounts, labels, options.ip, options.ports, port)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await until_first_ends(
            stop.wait(),
            _live(client, node, options.ready_file),
            _follow(client, options.node, pods),
            pods.write(),
            volumes.run(),
        )
        await server.stop()
        processes.close()


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.tls_certificate and not options.tls_client_ca:
        raise CannotRun("--tls-certificate: --tls-client-ca is missing: who calls may run commands here")
    return server_tls(options.tls_certificate, options.tls_key, options.tls_client_ca)


async def _live(client: ApiClient, node: dict[str, object], ready_file: Path | None) -> NoReturn:
    """Register, and renew the lease; begin again where the node was deleted."""
    metadata = node["metadata"]
    assert isinstance(metadata, dict)
    name = str(metadata["name"])
    while True:
        try:
            await register(client, node)
            await renew_lease(client, name)
            write_ready_file(ready_file, {"pid": os.getpid(), "node": name})
            ready_file = None
            await asyncio.sleep(LEASE_SECONDS)
        except (ApiError, Unavailable) as error:
            say(f"node {name} is not registered: {error}")
            await asyncio.sleep(RETRY_SECONDS)


async def _follow(client: ApiClient, node: str, pods: Pods) -> NoReturn:
    while True:
        try:
            await follow(client, "/api/v1/pods", pods.take, fieldSelector=f"spec.nodeName={node}")
        except (ApiError, Unavailable) as error:
            say(f"pods are not followed: {error}")
            await asyncio.sleep(RETRY_SECONDS)


def main() -> int:
    """Run a kubelet until SIGTERM or SIGINT; return the exit code. Its pods run on."""
    keep_private(PASSABLE)
    return run(NAME, _serve(_parser().parse_args()))


if __name__ == "__main__":
    sys.exit(main())
