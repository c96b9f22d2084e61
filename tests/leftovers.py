"""What a cluster without jobs has left behind: claims, holds, reservations, runs and allocation."""

from __future__ import annotations

import time

from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.client import PelotonClient
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2

TRY_SECONDS = 10.0
NOBODY = ("", "ready")
"""Claims of hosts that nobody has claimed."""


def leftovers(client: PelotonClient) -> list[str]:
    """Return each thing that is left, in words. Raises grpc.RpcError."""
    return [*_of_hosts(client), *_of_pools(client), *_of_tasks(client)]


def _of_hosts(client: PelotonClient) -> list[str]:
    found = []
    request = hostsvc_pb2.GetHostsByQueryRequest()
    for host in client.hostmgr_svc.GetHostsByQuery(request, timeout=TRY_SECONDS).hosts:
        if host.status not in NOBODY:
            found.append(f"{host.hostname} is {host.status}")
        found += [f"{host.hostname} has run {task.value}" for task in host.tasks]
    hosts = client.host_svc.QueryHosts(host_svc_pb2.QueryHostsRequest(), timeout=TRY_SECONDS)
    for each in hosts.host_infos:
        found += [f"{each.hostname} is held for {held.instances} of {held.job_id}" for held in each.held]
    return found


def _of_pools(client: PelotonClient) -> list[str]:
    pools = client.respool_svc.Query(respool_pb2.QueryRequest(), timeout=TRY_SECONDS).resourcePools
    return [
        f"pool {pool.path.value} has {usage.allocation:g} {usage.kind} allocated"
        for pool in pools
        for usage in pool.usage
        if usage.allocation or usage.slack
    ]


def _of_tasks(client: PelotonClient) -> list[str]:
    answer = client.resmgr_svc.GetActiveTasks(resmgrsvc_pb2.GetActiveTasksRequest(), timeout=TRY_SECONDS)
    return [
        f"resmgr has {task.taskID} {task.taskState}"
        for entries in answer.tasksByState.values()
        for task in entries.taskEntry
    ]


def left_after(client: PelotonClient, seconds: float) -> list[str]:
    """Return what is still left after `seconds`; nothing as soon as nothing is."""
    deadline = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        found = leftovers(client)
        if not found or begun > deadline:
            return found
        time.sleep(0.1)
