"""Kills runs in Mesos, shuts down executors and reconciles runs, in batches."""

from __future__ import annotations

import logging
from typing import Any

from jobmgr.drivers.retry import Bucket, until_answered
from jobmgr.engine.outbox import Queue
from peloton.errors import PelotonError
from peloton.model.ids import Run, mesos_task_id, task_id
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.reconcile import reconcile_pb2
from peloton.rpc.client import Caller
from peloton.wire.ids import agent_id, executor_id, run_id

KILLS_PER_CALL = 1000
RUNS_PER_RECONCILIATION = 1000
log = logging.getLogger(__name__)


class Killer:
    """Carries out Kill, ShutDown and Reconcile. The core repeats what fails until there is a status."""

    def __init__(self, hostmgr: Caller, reconciler: Caller, kills: Bucket, shut_downs: Bucket) -> None:
        self._hostmgr = hostmgr
        self._reconciler = reconciler
        self._kills = kills
        self._shut_downs = shut_downs

    async def kill(self, queue: Queue[Run]) -> None:
        """Kill runs; run for ever."""
        while True:
            runs = dict.fromkeys(await queue.take(self._kills.share(KILLS_PER_CALL)))
            await self._kills.pay(len(runs))
            ids = [run_id(mesos_task_id(*run)) for run in runs]
            request = hostsvc_pb2.KillTasksRequest(taskIds=ids)
            await self._call("KillTasks", request, len(ids))

    async def kill_and_hold(self, queue: Queue[tuple[Run, str]]) -> None:
        """Kill runs and have their hosts held for the next runs of their instances; run for ever."""
        while True:
            runs = dict(await queue.take(self._kills.share(KILLS_PER_CALL)))
            await self._kills.pay(len(runs))
            request = hostsvc_pb2.KillAndReserveTasksRequest()
            for run, hostname in runs.items():
                entry = request.entries.add(hostToReserve=hostname)
                entry.taskId.value = mesos_task_id(*run)
                entry.id.value = task_id(run.job_id, run.instance)
            await self._call("KillAndReserveTasks", request, len(runs))

    async def _call(self, method: str, request: Any, runs: int) -> None:
        """Call a method that kills runs."""
        try:
            answer = await until_answered(self._hostmgr, method, request)
        except PelotonError as failure:
            log.warning("%d kills: %s", runs, failure)
            return
        if answer.HasField("error"):
            error = answer.error
            failed = error.killFailure if error.HasField("killFailure") else error.invalidTaskIDs
            log.warning("%d of %d kills failed: %s", len(failed.taskIds), runs, failed.message)

    async def shut_down(self, queue: Queue[tuple[Run, str]]) -> None:
        """Shut down executors; run for ever. The executor of a command task has the task's id."""
        while True:
            executors = [
                hostsvc_pb2.ExecutorOnAgent(
                    executorId=executor_id(mesos_task_id(*run)),
                    agentId=agent_id(agent),
                )
                for run, agent in await queue.take(self._shut_downs.share(KILLS_PER_CALL))
            ]
            await self._shut_downs.pay(len(executors))
            request = hostsvc_pb2.ShutdownExecutorsRequest(executors=executors)
            try:
                await until_answered(self._hostmgr, "ShutdownExecutors", request)
            except PelotonError as error:
                log.warning("%d executors not shut down: %s", len(executors), error)

    async def reconcile(self, queue: Queue[tuple[Run, str]]) -> None:
        """Reconcile runs; run for ever."""
        while True:
            runs = [
                reconcile_pb2.Run(mesos_task_id=mesos_task_id(*run), agent_id=agent)
                for run, agent in await queue.take(RUNS_PER_RECONCILIATION)
            ]
            request = reconcile_pb2.ReconcileTasksRequest(runs=runs)
            try:
                await until_answered(self._reconciler, "ReconcileTasks", request)
            except PelotonError as error:
                log.warning("%d runs not reconciled: %s", len(runs), error)
