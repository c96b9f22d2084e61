"""LaunchService: launches of jobmgr on several hosts in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from hostmgr.drivers.manager import HostManager
from peloton.api.v0.task import task_pb2
from peloton.errors import Fenced, InvalidArgument, Refused, Unavailable
from peloton.model.ids import MesosTaskId, mesos_task_id
from peloton.model.plural import plural
from peloton.model.resources import milli
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount
from peloton.private.hostmgr.launching import launching_pb2 as pb
from peloton.private.hostmgr.launching import launching_pb2_grpc
from peloton.rpc.checks import checked
from peloton.rpc.claimed import Shards, require_runs, shards
from peloton.wire.launch import LaunchConfig, volume_from

MOST_HOSTS = 100
FIRST_PORT = 31_000
MOST_TRIALS = 20
_NOBODY = mesos_task_id("00000000-0000-4000-8000-000000000000", 0, 1)
"""The run of tasks that are tried."""
_LAUNCHED = pb.Outcome(result=pb.Outcome.RESULT_LAUNCHED)


class LaunchOnHosts(launching_pb2_grpc.LaunchServiceServicer):
    """Launch on each host by itself."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager

    async def LaunchTasks(self, request: pb.LaunchTasksRequest, context: Any) -> pb.LaunchTasksResponse:
        """Launch tasks; return what became of each host's. Raises InvalidArgument for too many hosts."""
        if len(request.hosts) > MOST_HOSTS:
            raise InvalidArgument("hosts", plural(len(request.hosts), "host"), f"at most {MOST_HOSTS}")
        configs = _Configs(request.configs)
        mine = shards(context)
        outcomes = [self._launch(host, configs, mine) for host in request.hosts]
        await self._manager.room()
        return pb.LaunchTasksResponse(outcomes=outcomes)

    async def TryTasks(self, request: pb.TryTasksRequest, context: Any) -> pb.TryTasksResponse:
        """Return why tasks would be refused. Raises InvalidArgument for too many, and Unavailable."""
        count = len(request.configs)
        if count > MOST_TRIALS:
            raise InvalidArgument("configs", plural(count, "config"), f"at most {MOST_TRIALS}")
        configs = _Configs(request.configs)
        launches = [_trial(configs.at(place)) for place in range(count)]
        refusals = await asyncio.gather(*map(self._manager.try_task, launches))
        return pb.TryTasksResponse(refusals=refusals)

    def _launch(self, host: pb.HostLaunch, configs: _Configs, mine: Shards) -> pb.Outcome:
        try:
            if not host.tasks:
                raise InvalidArgument("tasks", "[]", "at least one task")
            runs = [task.mesos_task_id for task in host.tasks]
            self._check_owner(host, runs, mine)
            self._manager.launch(
                host.host_offer_id,
                host.hostname,
                host.agent_id,
                runs,
                _launches(host, configs),
            )
        except (Refused, Fenced) as error:
            return pb.Outcome(result=pb.Outcome.RESULT_CLAIM_OVER, message=str(error))
        except InvalidArgument as error:
            return pb.Outcome(result=pb.Outcome.RESULT_FAULTY, message=str(error))
        except Unavailable as error:
            return pb.Outcome(result=pb.Outcome.RESULT_UNAVAILABLE, message=str(error))
        return _LAUNCHED

    def _check_owner(self, host: pb.HostLaunch, runs: Sequence[MesosTaskId], mine: Shards) -> None:
        """Raise Fenced, which ends the claim, where a run is not the caller's: all are placed anew."""
        try:
            require_runs(mine, runs)
        except Fenced:
            self._manager.end_claim(host.host_offer_id, host.hostname)
            raise


class _Configs:
    """The configs of a call, each read when a task has it."""

    def __init__(self, encoded: Sequence[bytes]) -> None:
        self._encoded = encoded
        self._read: dict[int, LaunchConfig] = {}

    def at(self, place: int) -> LaunchConfig:
        """Return a config. Raises InvalidArgument where there is none, or it is invalid."""
        config = self._read.get(place)
        if config is None:
            config = self._read[place] = self._parsed(place)
        return config

    def _parsed(self, place: int) -> LaunchConfig:
        path, config = f"configs[{place}]", task_pb2.TaskConfig()
        if place >= len(self._encoded):
            raise InvalidArgument(path, place, f"a place in {plural(len(self._encoded), 'config')}")
        raw = self._encoded[place]
        try:
            config.ParseFromString(raw)
        except DecodeError:
            raise InvalidArgument(path, plural(len(raw), "byte"), "an encoded TaskConfig") from None
        checked(config, raw)
        return LaunchConfig.of(config, path)


def _trial(config: LaunchConfig) -> Launch:
    """Return the launch of a task that is tried, with ports and a volume that it will not have."""
    ports = {name: FIRST_PORT + place for place, name in enumerate(config.ports)}
    wanted, volume = config.config.volume, None
    if wanted.containerPath:
        volume = VolumeMount(_NOBODY, milli(wanted.sizeMB), wanted.containerPath, create=True)
    return config.launch(_NOBODY, ports, volume)


def _launches(host: pb.HostLaunch, configs: _Configs) -> Iterator[Launch]:
    """Translate the tasks of a host. Raises InvalidArgument."""
    for task in host.tasks:
        if task.config >= len(host.configs):
            raise InvalidArgument(
                "tasks.config", task.config, f"a place in {plural(len(host.configs), 'config')}"
            )
        path = f"tasks[{task.mesos_task_id}].volume"
        volume = volume_from(task.volume, path) if task.HasField("volume") else None
        yield configs.at(host.configs[task.config]).launch(task.mesos_task_id, task.ports, volume)
