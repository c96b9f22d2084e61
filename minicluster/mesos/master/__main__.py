"""``python -m minicluster.mesos.master``: reads flags, builds a master, runs it."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from minicluster.mesos.common import launch_costs, resource_notation
from minicluster.mesos.common.basic_auth import read_credentials
from minicluster.mesos.common.server_process import (
    CannotRun,
    listen,
    prepare_directory,
    run,
    server_tls,
    write_ready_file,
)
from minicluster.mesos.master.core.simulated_agents import SimulationConfig
from minicluster.mesos.master.core.state import MasterConfig
from minicluster.mesos.master.history import History
from minicluster.mesos.master.registry import FileRegistry, RegistryError
from minicluster.mesos.master.service import MasterService
from peloton.config.private import keep_private
from peloton.errors import InvalidArgument
from peloton.mesos.detector import ElectionPath


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mesos-master", description=__doc__)
    add = parser.add_argument
    add("--ip", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=5050, help="port to listen on, 0 for any")
    add("--hostname", default="localhost", help="name under which frameworks are sent here")
    add("--work-dir", type=Path, required=True, help="where the registry is kept")
    add("--ready-file", type=Path, help="written once the master listens: JSON with pid, host and port")
    add("--registry", choices=("replicated_log", "in_memory"), default="replicated_log")
    add("--zk", help="zk://HOST:PORT,…/PATH: be one of several masters, which elect one there")
    add("--zk-session-timeout", type=float, default=10.0, help="seconds until ZooKeeper gives it up")
    add("--tls-certificate", type=Path, help="PEM file: serve TLS, to frameworks and to agents")
    add("--tls-key", type=Path, help="PEM file; without it the key is in the certificate's")
    add("--tls-client-ca", type=Path, help="PEM file: clients must show a certificate of this authority")
    add("--credentials", type=Path, help='JSON {"credentials": [{"principal": …, "secret": …}]}: Basic auth')
    add("--history", type=Path, help="file to which is added what becomes of tasks, one JSON object a line")
    add("--offer-timeout", type=float, help="seconds after which an unused offer is rescinded")
    add("--allocation-interval", type=float, default=1.0, help="seconds between allocations")
    add("--heartbeat-interval", type=float, default=15.0, help="seconds between heartbeats")
    add("--agent-ping-timeout", type=float, default=15.0, help="seconds between pings of an agent")
    add("--max-agent-ping-timeouts", type=int, default=5, help="unanswered pings until it is unreachable")
    add("--agent-reregister-timeout", type=float, default=600.0, help="seconds recovered agents have")
    add("--simulated-agents", type=int, default=0, help="how many agents to simulate")
    add("--simulated-resources", default="cpus:8;mem:16384;disk:65536;ports:[31000-32000]")
    add("--simulated-attributes", default="")
    add("--simulated-task-seconds", type=float, default=1.0, help="how long their tasks run")
    add("--simulated-seed", type=int, default=0, help="seed of the ids that they make")
    launch_costs.add_flags(parser, "simulated-")
    return parser


def _simulation(options: argparse.Namespace) -> SimulationConfig | None:
    if not options.simulated_agents:
        return None
    try:
        return SimulationConfig(
            agents=options.simulated_agents,
            resources=resource_notation.parse_resources(options.simulated_resources),
            attributes=tuple(resource_notation.parse_attributes(options.simulated_attributes)),
            task_seconds=options.simulated_task_seconds,
            seed=options.simulated_seed,
            costs=launch_costs.costs_of(options, "simulated-"),
        )
    except resource_notation.NotationError as error:
        raise CannotRun(f"--simulated-resources or --simulated-attributes: {error}") from error
    except ValueError as error:
        raise CannotRun(f"--simulated-launch-seconds and what belongs to it: {error}") from error


def _config(options: argparse.Namespace, port: int) -> MasterConfig:
    return MasterConfig(
        master_id=str(uuid.uuid4()),
        ip=options.ip,
        port=port,
        hostname=options.hostname,
        allocation_interval=options.allocation_interval,
        offer_timeout=options.offer_timeout,
        heartbeat_interval=options.heartbeat_interval,
        agent_ping_timeout=options.agent_ping_timeout,
        max_agent_ping_timeouts=options.max_agent_ping_timeouts,
        agent_reregister_timeout=options.agent_reregister_timeout,
    )


def _history(path: Path | None) -> History | None:
    try:
        return History(path) if path is not None else None
    except OSError as error:
        raise CannotRun(f"--history {path}: {error.strerror}; name a file that can be written") from error


def _election_path(text: str) -> ElectionPath:
    try:
        return ElectionPath.parse(text)
    except InvalidArgument as error:
        raise CannotRun(f"--zk: {error}") from error


def _lead(service: MasterService, options: argparse.Namespace) -> None:
    """Lead at once: there are no others."""
    if options.registry == "in_memory":
        service.start()
        return
    registry = FileRegistry(options.work_dir / "registry.json")
    try:
        service.start(registry.read(), registry.write)
    except RegistryError as error:
        raise CannotRun(f"{registry.path}: {error}") from error


async def _contend(service: MasterService, where: ElectionPath, session: float) -> None:
    """Contend for leadership, and lead when elected, without end.

    Raise CannotRun when this master has to end.
    """
    # They import kazoo, which a master that is alone does without.
    from minicluster.mesos.master.election import Deposed, Election
    from peloton.membership.connection import Connection

    connection = Connection(where.servers, session)
    try:
        await Election(connection, where, service.cluster.config, session, service).run()
    except (Deposed, RegistryError) as error:
        raise CannotRun(str(error)) from error


async def _until_stopped(work: Coroutine[Any, Any, None] | None) -> None:
    """Work, if there is anything, until SIGTERM or SIGINT. Raise what ends the work before."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if work is None:
        await stop.wait()
        return
    stopped, working = asyncio.create_task(stop.wait()), asyncio.create_task(work)
    await asyncio.wait({stopped, working}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        await working  # raises
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def _serve(options: argparse.Namespace) -> None:
    gc.set_threshold(50_000, 20, 50)  # nearly everything here lives long, and little of it in cycles
    prepare_directory(options.work_dir, "--work-dir")
    flags = {name: str(value) for name, value in vars(options).items() if value is not None}
    credentials, simulation = read_credentials(options.credentials), _simulation(options)
    where = _election_path(options.zk) if options.zk else None
    tls = server_tls(options.tls_certificate, options.tls_key, options.tls_client_ca)
    socket = listen(options.ip, options.port)
    port = socket.getsockname()[1]
    history = _history(options.history)
    service = MasterService(_config(options, port), flags, credentials, simulation, history)
    if where is None:
        _lead(service, options)
    await service.server.serve(socket, tls)
    print(f"master: listening on {options.ip}:{port}", flush=True)
    write_ready_file(options.ready_file, {"pid": os.getpid(), "host": options.ip, "port": port})
    try:
        await _until_stopped(_contend(service, where, options.zk_session_timeout) if where else None)
    finally:
        await service.server.stop()


def main() -> int:
    """Run a master until SIGTERM or SIGINT; return the exit code."""
    keep_private()
    return run("master", _serve(_parser().parse_args()))


if __name__ == "__main__":
    sys.exit(main())
