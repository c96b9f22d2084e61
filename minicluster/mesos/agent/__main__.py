"""``python -m minicluster.mesos.agent``: reads flags, builds an agent, runs it."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from minicluster.mesos.agent.devices import DeviceError, devices_of
from minicluster.mesos.agent.docker_engine import docker_answers
from minicluster.mesos.agent.docker_run import Allowed
from minicluster.mesos.agent.isolation import Isolation, Mode, detect
from minicluster.mesos.agent.launcher import Images, Launcher
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.service import AgentConfig, AgentService
from minicluster.mesos.agent.task_limits import TaskLimits, Wanted, lacking, remove_cgroups
from minicluster.mesos.agent.task_limits import detect as detect_limits
from minicluster.mesos.common import launch_costs, resource_notation
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.basic_auth import read_credentials
from minicluster.mesos.common.modes import PASSABLE
from minicluster.mesos.common.server_process import (
    CannotRun,
    client_tls,
    listen,
    prepare_directory,
    run,
    server_tls,
    tell,
    write_ready_file,
)
from minicluster.mesos.common.status_updates import FIRST_RETRY_SECONDS
from peloton.config.private import keep_private
from peloton.daemon.log import printable
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
    add(
        "--nvidia-gpu-devices",
        default="",
        help="devices of the resource gpus: their indices in nvidia-smi, or UUIDs, with commas between them; "
        "default: from 0 on",
    )
    add("--attributes", default="", help="text, scalars and ranges")
    add("--work-dir", type=Path, required=True, help="where sandboxes and checkpoints are kept")
    add("--ready-file", type=Path, help="written once it is registered: JSON with pid, host, port, agent_id")
    add(
        "--launcher",
        choices=("auto", "posix"),
        default="auto",
        help="auto: cgroups hold tasks to their memory and their share of the CPUs, where they can be made; "
        "posix: none are made",
    )
    add(
        "--cgroups-enable-cfs",
        action="store_true",
        help="hold tasks to their CPUs also where others are idle",
    )
    add(
        "--pids-limit",
        type=_count,
        default=0,
        help="processes and threads of a task at a time, 0: any number",
    )
    add(
        "--status-update-retry-interval", type=float, default=FIRST_RETRY_SECONDS, help="seconds, first retry"
    )
    add(
        "--images",
        choices=[each.value for each in Images],
        default=Images.REFUSE.value,
        help="a task that asks for an image fails as without docker, is run by docker, or plainly",
    )
    add(
        "--docker-parameters",
        default="",
        help="options of `docker run`, separated by commas, that tasks may set besides harmless ones",
    )
    add("--docker-privileged", action="store_true", help="run privileged containers, too")
    add(
        "--isolation",
        choices=[each.value for each in Mode],
        default=Mode.NONE.value,
        help="users (as root) and namespaces of their own for tasks: none, those that can be had, or all",
    )
    add("--hide", type=Path, action="append", default=[], help="folder that isolated tasks do not see")
    add("--tls-certificate", type=Path, help="PEM file: speak HTTPS")
    add("--tls-key", type=Path, help="PEM file of its key")
    add("--master-ca", type=Path, help="PEM file of authorities: speak TLS with the master")
    add("--master-certificate", type=Path, help="PEM file: the certificate to show to the master")
    add("--master-key", type=Path, help="PEM file of its key")
    add("--credentials", type=Path, help='JSON {"credentials": [{"principal": …, "secret": …}]}: Basic auth')
    launch_costs.add_flags(parser)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def _check_master(text: str) -> None:
    try:
        parse_master(text)
    except InvalidArgument as error:
        raise CannotRun(f"--master: {error}") from error


def _resources(options: argparse.Namespace) -> res.Bundle:
    try:
        bundle = resource_notation.parse_resources(options.resources)
        res.add(bundle, resource_notation.parse_resources(options.revocable, revocable=True))
    except resource_notation.NotationError as error:
        raise CannotRun(f"--resources or --revocable: {error}") from error
    return bundle


def _devices(options: argparse.Namespace, resources: res.Bundle) -> tuple[str, ...]:
    try:
        return devices_of(resources, options.nvidia_gpu_devices)
    except DeviceError as error:
        raise CannotRun(f"--resources and --nvidia-gpu-devices: {error}") from error


def _config(options: argparse.Namespace, port: int) -> AgentConfig:
    try:
        attributes = tuple(resource_notation.parse_attributes(options.attributes))
    except resource_notation.NotationError as error:
        raise CannotRun(f"--attributes: {error}") from error
    try:
        costs = launch_costs.costs_of(options)
    except ValueError as error:
        raise CannotRun(f"--launch-seconds and what belongs to it: {error}") from error
    resources = _resources(options)
    return AgentConfig(
        ip=options.ip,
        port=port,
        hostname=options.hostname,
        resources=resources,
        attributes=attributes,
        devices=_devices(options, resources),
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
        raise CannotRun("--images docker: no docker engine answers; start one, or take refuse or plain")
    layout = Layout(options.work_dir.absolute())
    layout.make()
    isolation = _isolation(options)
    tls = server_tls(options.tls_certificate, options.tls_key, None)
    socket = listen(options.ip, options.port)
    port = socket.getsockname()[1]
    config = _config(options, port)
    limits = _limits(options, layout, config.resources)
    service = AgentService(config, layout, Launcher(layout, limits, images, isolation, _allowed(options)))
    service.recover()
    await service.server.serve(socket, tls)
    await _until_stopped(service, options, port)
    await service.server.stop()
    remove_cgroups(layout)


def _allowed(options: argparse.Namespace) -> Allowed:
    names = frozenset(filter(None, options.docker_parameters.split(",")))
    return Allowed(names, options.docker_privileged)


def _limits(options: argparse.Namespace, layout: Layout, total: res.Bundle) -> TaskLimits:
    """Find out what tasks can be held to, and say what they cannot, once."""
    wanted = Wanted(options.cgroups_enable_cfs, options.pids_limit)
    say = partial(tell, "agent")
    if options.launcher != "auto":
        return TaskLimits(tell=say)
    found = detect_limits(layout, wanted, total)
    if text := lacking(found):
        say(text)
    return TaskLimits(found.cgroups, wanted, say)


def _isolation(options: argparse.Namespace) -> Isolation:
    mode = Mode(options.isolation)
    found = detect(mode, [*options.hide, options.work_dir])
    if found.lacks and mode is Mode.REQUIRE:
        raise CannotRun(
            f"--isolation require: tasks cannot have {found.lacks}; --isolation auto does without"
        )
    if found.lacks:
        tell("agent", f"tasks do not have {found.lacks}")
    return found


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
            print(printable(f"agent: listening on {options.ip}:{port}, registered as {agent_id}"), flush=True)
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
    tell("agent", f"ended by the master: {connected.result()}")
    await service.end_tasks()


def main() -> int:
    """Run an agent until SIGTERM or SIGINT, or until the master ends it; return the exit code."""
    keep_private(PASSABLE)
    gc.set_threshold(50_000, 20, 50)  # little of what is here lies in cycles
    return run("agent", _serve(_parser().parse_args()))


if __name__ == "__main__":
    sys.exit(main())
