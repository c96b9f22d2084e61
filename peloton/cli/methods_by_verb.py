"""Verbs and resources, as people say them, by the methods that stand for them: for `peloton auth can-i`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peloton.errors import InvalidArgument

_V0, _V1 = "peloton.api.v0", "peloton.api.v1alpha"
_JOBS, _TASKS = f"{_V0}.job.JobManager", f"{_V0}.task.TaskManager"
_SERVICES, _PODS = f"{_V1}.job.stateless.svc.JobService", f"{_V1}.pod.svc.PodService"
_POOLS, _HOSTS = f"{_V0}.respool.ResourceManager", f"{_V0}.host.svc.HostService"
_UPDATES, _VOLUMES = f"{_V0}.update.svc.UpdateService", f"{_V0}.volume.svc.VolumeService"
_ADMIN, _WATCH = f"{_V1}.admin.svc.AdminService", f"{_V1}.watch.svc.WatchService"
_EXPLAIN = "peloton.private.resmgr.explain.ExplainService"

RESOURCES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "jobs": {
        **{
            verb: (_JOBS, method)
            for verb, method in (
                *(("create", "Create"), ("get", "Get"), ("list", "Query"), ("update", "Update")),
                *(("delete", "Delete"), ("refresh", "Refresh"), ("restart", "Restart")),
                *(("start", "Start"), ("stop", "Stop")),
            )
        },
        "explain": (_EXPLAIN, "ExplainJob"),
        "usage": ("peloton.private.jobmgr.usage.UsageService", "GetUsage"),
    },
    "services": {
        **{
            verb: (_SERVICES, f"{verb.capitalize()}Job")
            for verb in ("create", "get", "replace", "patch", "delete", "start", "stop", "restart", "refresh")
        },
        "list": (_SERVICES, "ListJobs"),
        "update": (_SERVICES, "ReplaceJob"),
        **{verb: (_SERVICES, f"{verb.capitalize()}JobWorkflow") for verb in ("pause", "resume", "abort")},
    },
    "tasks": {
        **{
            verb: (_TASKS, verb.capitalize())
            for verb in ("get", "list", "start", "stop", "restart", "refresh")
        },
        "logs": (_TASKS, "BrowseSandbox"),
        "exec": ("peloton.private.jobmgr.exec.ExecService", "StartSession"),
        "explain": (_EXPLAIN, "ExplainTask"),
    },
    "pods": {
        **{
            verb: (_PODS, f"{verb.capitalize()}Pod")
            for verb in ("get", "start", "stop", "restart", "refresh")
        },
        "list": (_SERVICES, "ListPods"),
        "logs": (_PODS, "BrowsePodSandbox"),
    },
    "updates": {
        **{
            verb: (_UPDATES, f"{verb.capitalize()}Update")
            for verb in ("create", "get", "pause", "resume", "abort", "rollback")
        },
        "list": (_UPDATES, "ListUpdates"),
    },
    "pools": {
        **{
            verb: (_POOLS, f"{verb.capitalize()}ResourcePool")
            for verb in ("create", "get", "update", "delete")
        },
        "list": (_POOLS, "Query"),
    },
    "hosts": {
        "get": (_HOSTS, "QueryHosts"),
        "list": (_HOSTS, "QueryHosts"),
        "drain": (_HOSTS, "StartMaintenance"),
        "undrain": (_HOSTS, "CompleteMaintenance"),
        "move": (_HOSTS, "MoveHosts"),
    },
    "hostpools": {
        "create": (_HOSTS, "CreateHostPool"),
        "list": (_HOSTS, "ListHostPools"),
        "update": (_HOSTS, "ChangeHostPool"),
        "delete": (_HOSTS, "DeleteHostPool"),
    },
    "volumes": {
        "get": (_VOLUMES, "GetVolume"),
        "list": (_VOLUMES, "ListVolumes"),
        "delete": (_VOLUMES, "DeleteVolume"),
    },
    "changes": {"watch": (_WATCH, "Watch")},
    "components": {"lock": (_ADMIN, "Lockdown"), "unlock": (_ADMIN, "RemoveLockdown")},
}
_SINGULAR = {name.removesuffix("s"): name for name in RESOURCES}
_OTHER_NAMES = {
    "job": "jobs",
    "respool": "pools",
    "respools": "pools",
    "instance": "tasks",
    "instances": "tasks",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The method that a question is about, and the role that serves it."""

    role: str
    service: str
    method: str


def asked(verb: str, resource: str) -> Asked:
    """Return the method of a verb and a resource, or of `call` and `service:method`.

    Raises InvalidArgument with what there is.
    """
    if verb == "call":
        service, colon, method = resource.partition(":")
        if not (service and colon and method):
            raise InvalidArgument("RESOURCE", resource, "SERVICE:METHOD, which `call` is about")
        return Asked(_role(service), service, method)
    name = _OTHER_NAMES.get(resource, _SINGULAR.get(resource, resource))
    verbs = RESOURCES.get(name)
    if verbs is None:
        raise InvalidArgument("RESOURCE", resource, f"one of {', '.join(RESOURCES)}")
    if verb not in verbs:
        raise InvalidArgument("VERB", verb, f"one of {', '.join(verbs)}, which there is for {name}")
    service, method = verbs[verb]
    return Asked(_role(service), service, method)


def _role(service: str) -> str:
    if ".host." in service or ".hostmgr." in service:
        return "hostmgr"
    return "resmgr" if ".respool." in service or ".resmgr." in service else "jobmgr"
