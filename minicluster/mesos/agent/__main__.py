"""``python -m minicluster.mesos.agent``: reads flags, builds an agent, runs it."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from minicluster.mesos.agent.launcher import Images, Launcher, docker_answers
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.memory_limits import detect, remove_cgroup
from minicluster.mesos.agent.service import AgentConfig, AgentService
from minicluster.mesos.common import launch_costs, resource_notation
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.basic_auth import read_credentials
from minicluster.mesos.common.modes import PASSABLE
from minicluster.mesos.common.server_process import (
    Refusal,
    client_tls,
    listen,
    prepare_directory,
    run,
    server_tls,
    write_ready_file,
)
from minicluster.mesos.common.status_updates import FIRST_RETRY_SECONDS
from peloton.config.private import keep_private
from peloton.errors import InvalidArgument
from peloton.mesos.detector import detecting, parse_master


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mesos-agent", description=__doc__)
    add = parser.add_argument
    add("--master", required=True, help="the master's HOST:PORT, or zk://HOST:PORT,…/PATH")
    add("--ip", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=5051, help="port to listen on, 0 for any")
    add("--hostname", default="localhost", help="name under which it is offered")
    add("--resources", default="cpus:4;mem:2048;disk:20000;ports:[31000-32000]")
    add("--revocable", default="", help="resources offered as revocable, over and above --resources")
    add("--attributes", default="", help="text, scalars and ranges")
    add("--work-dir", type=Path, required=True, help="where sandboxes and checkpoints are kept")
    add("--ready-file", type=Path, help="written once it is registered: JSON with pid, host, port, agent_id")
    add("--launcher", choices=("auto", "posix"), default="auto", help="posix: make no cgroups")
    add(
        "--status-update-retry-interval", type=float, default=FIRST_RETRY_SECONDS, help="seconds, first retry"
    )
    add(
        "--images",
        choices=[each.value for each in Images],
        default=Images.REFUSE.value,
        help="a task that asks for an image fails as without docker, is run by docker, or plainly",
    )
    add("--tls-certificate", type=Path, help="PEM file: speak HTTPS")
    add("--tls-key", type=Path, help="PEM file of its key")
    add("--master-ca", type=Path, help="PEM file of authorities: speak TLS with the master")
    add("--master-certificate", type=Path, help="PEM file: the certificate to show to the master")
    add("--master-key", type=Path, help="PEM file of its key")
    add("--credentials", type=Path, help='JSON {"credentials": [{"principal": …, "secret": …}]}: Basic auth')
    launch_costs.add_flags(parser)
    return parser


def _check_master(text: str) -> None:
    try:
        parse_master(text)
    except InvalidArgument as error:
        raise Refusal(f"--master: {error}") from error


def _resources(options: argparse.Namespace) -> res.Bundle:
    try:
        bundle = resource_notation.parse_resources(options.resources)
        res.add(bundle, resource_notation.parse_resources(options.revocable, revocable=True))
    except resource_notation.NotationError as error:
        raise Refusal(f"--resources or --revocable: {error}") from error
    return bundle


def _config(options: argparse.Namespace, port: int) -> AgentConfig:
    try:
        attributes = tuple(resource_notation.parse_attributes(options.attributes))
    except resource_notation.NotationError as error:
        raise Refusal(f"--attributes: {error}") from error
    try:
        costs = launch_costs.costs_of(options)
    except ValueError as error:
        raise Refusal(f"--launch-seconds and what belongs to it: {error}") from error
    return AgentConfig(
        ip=options.ip,
        port=port,
        hostname=options.hostname,
        resources=_resources(options),
        attributes=attributes,
        first_retry=options.status_update_retry_interval,
        costs=costs,
        master_tls=client_tls(options.master_ca, options.master_certificate, options.master_key),
        credentials=read_credentials(options.credentials),
        flags={name: str(value) for name, value in sorted(vars(options).items()) if value is not None},
    )


async def _serve(options: argparse.Namespace) -> None:
    _check_master(options.master)
    prepare_directory(options.work_dir, "--work-dir")
    images = Images(options.images)
    if images is Images.DOCKER and not await docker_answers():
        raise Refusal("--images docker: no docker engine answers; start one, or take refuse or plain")
    layout = Layout(options.work_dir.absolute())
    layout.make()
    tls = server_tls(options.tls_certificate, options.tls_key, None)
    socket = listen(options.ip, options.port)
    port = socket.getsockname()[1]
    config = _config(options, port)
    limits = detect(layout, options.launcher == "auto")
    service = AgentService(config, layout, Launcher(layout, limits, images))
    service.recover()
    await service.server.serve(socket, tls)
    await _until_stopped(service, options, port)
    await service.server.stop()
    remove_cgroup(layout)


async def _belong(service: AgentService, master: str, registered: Callable[[str], None]) -> str:
    """Follow the leading master until it ends this agent; return why."""
    async with detecting(master, service.master_seen) as masters:
        return await service.stay_connected(masters, registered)


async def _until_stopped(service: AgentService, options: argparse.Namespace, port: int) -> None:
    announced = False

    def registered(agent_id: str) -> None:
        nonlocal announced
        if not announced:
            announced = True
            print(f"agent: listening on {options.ip}:{port}, registered as {agent_id}", flush=True)
            ready = {"pid": os.getpid(), "host": options.ip, "port": port, "agent_id": agent_id}
            write_ready_file(options.ready_file, ready)

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connected = asyncio.create_task(_belong(service, options.master, registered))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({connected, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        await service.leave(connected)
        return
    stopped.cancel()
    print(f"agent: ended by the master: {connected.result()}", file=sys.stderr, flush=True)
    await service.end_tasks()


def main() -> int:
    """Run an agent until SIGTERM or SIGINT, or until the master ends it; return the exit code."""
    keep_private(PASSABLE)
    gc.set_threshold(50_000, 20, 50)  # little of what is here lies in cycles
    return run("agent", _serve(_parser().parse_args()))


if __name__ == "__main__":
    sys.exit(main())
