"""A cluster on a real API server into which faults are injected, with what the API server has seen of it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from minicluster.cluster import Cluster
from minicluster.components import API_SERVER, ETCD
from minicluster.mesos.agent.cleanup import kill_tasks
from minicluster.servers import kubernetes
from minicluster.settings import ClusterSettings, DaemonSettings, Instances
from peloton.errors import Unavailable
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import EXPIRED, Change, Changed, Removed, Replaced
from tests.faults.history import OVER, Event, Run
from tests.faults.proxy import Proxy
from tests.faults.testbed import ROWS, Setup, Testbed

PODS = f"/api/v1/namespaces/{kubernetes.NAMESPACE}/pods"
LOST_AFTER = 2.0
KEEP_FINISHED = 1.0
T = TypeVar("T")
AMOUNTS = ("cpu", "memory", "ephemeral-storage")


class KubernetesTestbed(Testbed):
    """etcd, an API server, three process kubelets, and daemons that reach the API server through a proxy."""

    __test__ = False  # no test class of pytest
    foreign_pods = False
    """Whether pods of others are taken."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, Setup(), seed)
        self.mesos = Proxy("127.0.0.1", 0)  # in the place of that in front of a Mesos master
        self._observer: Observer | None = None

    @property
    def api(self) -> Proxy:
        """The way of hostmgr to the API server."""
        return self.mesos

    @property
    def kubeconfig(self) -> Path:
        """By which the API server is called without the proxy."""
        return self.cluster.layout.kubeconfig

    def _settings(self) -> ClusterSettings:
        access = {
            "kubeconfig": str(self.folder / "proxied"),
            "lost_after": LOST_AFTER,
            "keep_finished": KEEP_FINISHED,
            "foreign_pods": {"enabled": self.foreign_pods},
        }
        reconcile = {"repeat_after": 5.0, "interval": 15.0, "launch_grace": 5.0}
        return ClusterSettings(
            ports="free",
            kubernetes="own",
            instances=Instances(jobmgr=2, resmgr=2, hostmgr=2),
            settings=DaemonSettings(
                jobmgr={"goal_state": {"rows_per_cycle": ROWS}},
                hostmgr={"kubernetes": access, "reconcile": reconcile},
            ),
        )

    def _aim(self, cluster: Cluster) -> None:
        """Write the kubeconfig that leads through the proxy, as soon as the API server has its token."""
        part = next(part for part in cluster.components() if part.kind == API_SERVER)
        folder = cluster.layout.work_of(part.name)
        self.mesos.target = ("127.0.0.1", part.http)
        if folder.exists():
            kubernetes.write_kubeconfig(folder, self.mesos.port, self.folder / "proxied")

    def _watch(self) -> None:
        super()._watch()
        self._observer = Observer(self.kubeconfig)
        self._stack.callback(self._observer.stop)
        self._observer.start()

    # What is seen of it.

    def events(self, since: float) -> list[Event]:
        assert self._observer is not None
        seen = [each for each in self._observer.seen() if each.at >= since or each.kind == "agent"]
        return sorted([*seen, *(each for each in self._dead if each.at >= since)], key=lambda each: each.at)

    def live(self) -> list[tuple[Run, str]]:
        """Return the runs whose pods have not ended, and those of which there are processes.

        Raises OSError where the API server does not answer.
        """
        found = {each for each in map(_live_of, self.list_pods()) if each is not None}
        known = {str(run) for run, _ in found}
        found |= {(Run.of(run), "a process") for run in self.processes() if run not in known}
        return sorted(found)

    def processes(self) -> set[str]:
        """Return the runs of which there are processes, whatever the API server says."""
        runs = set()
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                variables = process.environ()
                if variables.get("MESOS_SANDBOX", "").startswith(str(self.folder)):
                    runs.add(variables["MESOS_TASK_ID"])
        return runs

    def list_pods(self) -> list[dict[str, Any]]:
        """Return all pods of Peloton. Raises OSError."""
        return list(self.call("GET", PODS).get("items") or ())

    def make_history(self) -> None:
        """Change something that nobody follows, so that there is a newer version. Raises OSError."""
        change = {"metadata": {"annotations": {"peloton/tests": str(time.time_ns())}}}
        self.call("PATCH", "/api/v1/namespaces/default", change)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call the API server without the proxy. Raises OSError where that fails."""

        async def ask() -> dict[str, Any]:
            async with ApiClient(from_kubeconfig(self.kubeconfig), timeout=10.0) as client:
                kind = MERGE if method == "PATCH" else "application/json"
                return await client.call(method, path, body, content_type=kind)

        return self._run(ask())

    def _run(self, calls: Coroutine[Any, Any, T]) -> T:
        """Make calls of the API server. Raises OSError where one fails."""
        try:
            return asyncio.run(calls)
        except (Unavailable, ApiError) as error:
            raise OSError(str(error)) from error

    def version(self) -> str:
        """Return the present version of the pods. Raises OSError."""
        return str(self.call("GET", PODS)["metadata"]["resourceVersion"])

    def is_forgotten(self, version: str) -> bool:
        """Return whether the API server knows no changes any more from a version on, and says 410."""

        async def watch() -> bool:
            async with ApiClient(from_kubeconfig(self.kubeconfig), timeout=10.0) as client:
                try:
                    async for _ in client.watch(PODS, resourceVersion=version, timeoutSeconds=1):
                        return False
                except ApiError as error:
                    return error.status == EXPIRED
            return False

        return asyncio.run(watch())

    # Faults.

    def compact(self) -> None:
        """Let etcd forget its history."""
        part = next(part for part in self.cluster.components() if part.kind == ETCD)
        revision = self._etcd(part.http, "range", {"key": "AA=="})["header"]["revision"]
        self._etcd(part.http, "compaction", {"revision": revision, "physical": True})

    def _etcd(self, port: int, call: str, body: dict[str, Any]) -> Any:
        url = f"http://127.0.0.1:{port}/v3/kv/{call}"
        request = urllib.request.Request(url, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def lose_node(self, name: str) -> str:
        """End a kubelet with all that it runs, and take its node out of the cluster. Return the node."""
        node = str(json.loads(self.cluster.layout.ready_of(name).read_text())["node"])
        self.kill(name)
        kill_tasks(self.cluster.layout.work_of(name))
        self._dead.append(Event(time.time(), "dead", agent=node))
        self.call("DELETE", f"/api/v1/nodes/{node}")
        return node

    def repeat_statuses(self) -> None:
        """Have every pod reported again by the API server, with the status that it has. Raises OSError."""

        async def touch() -> None:
            async with ApiClient(from_kubeconfig(self.kubeconfig), timeout=10.0) as client:
                for pod in (await client.call("GET", PODS)).get("items") or ():
                    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
                    mark = {"uid": uid, "annotations": {"peloton/tests": str(time.time_ns())}}
                    with suppress(ApiError):  # it is gone meanwhile
                        await client.call("PATCH", f"{PODS}/{name}", {"metadata": mark}, content_type=MERGE)

        self._run(touch())

    def named(self, kind: str) -> list[str]:
        """Return the names of the components of a kind, such as KUBELET."""
        return [part.name for part in self.cluster.components() if part.kind == kind]


class Observer:
    """Follows nodes and pods beside hostmgr, in a thread of its own, and keeps what the checker wants."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._events: list[Event] = []
        self._begun: dict[str, bool] = {}
        """By the uid of a pod: whether it was seen to run."""
        self._ended: set[str] = set()
        self._pods: dict[str, dict[str, Any]] = {}
        self._listed = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._listed.wait(60), "the observer has not listed the pods"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._work.cancel)
        self._thread.join(10)

    def seen(self) -> list[Event]:
        return list(self._events)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._work = self._loop.create_task(self._follow())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._work)
        self._loop.close()

    async def _follow(self) -> None:
        async with ApiClient(from_kubeconfig(self._kubeconfig)) as client:
            nodes = await client.call("GET", "/api/v1/nodes")
            for node in nodes["items"]:
                amounts = _amounts(node["status"]["allocatable"])
                name = node["metadata"]["name"]
                self._events.append(Event(time.time(), "agent", agent=name, amounts=amounts))
            while True:
                with suppress(Unavailable, ApiError):
                    await follow(client, PODS, self._take)
                await asyncio.sleep(0.1)

    def _take(self, change: Change) -> None:
        if isinstance(change, Replaced):
            there = {each["metadata"]["uid"]: dict(each) for each in change.objects}
            for uid in [uid for uid in self._pods if uid not in there]:
                self._remove(self._pods[uid])
            for pod in there.values():
                self._put(pod)
            self._listed.set()
        elif isinstance(change, Changed):
            self._put(dict(change.object))
        elif isinstance(change, Removed):
            self._put(dict(change.object))
            self._remove(dict(change.object))

    def _put(self, pod: dict[str, Any]) -> None:
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        if uid not in self._pods:
            (container,) = pod["spec"]["containers"]
            self._note(pod, "launch", amounts=_amounts(container["resources"]["requests"]))
        self._pods[uid] = pod
        state = next(iter((status.get("containerStatuses") or [{}])[0].get("state") or {"": {}}))
        if state in ("running", "terminated") and not self._begun.get(uid):
            self._begun[uid] = True
            self._update(pod, "TASK_RUNNING")
        if status.get("phase") in ("Succeeded", "Failed"):
            self._end(pod, _end_of(pod))

    def _remove(self, pod: dict[str, Any]) -> None:
        self._end(pod, "TASK_KILLED" if pod["metadata"].get("deletionTimestamp") else "TASK_LOST")
        self._pods.pop(pod["metadata"]["uid"], None)

    def _end(self, pod: dict[str, Any], state: str) -> None:
        if pod["metadata"]["uid"] not in self._ended:
            self._ended.add(pod["metadata"]["uid"])
            self._update(pod, state)

    def _update(self, pod: dict[str, Any], state: str) -> None:
        self._note(pod, "update", state=state, latest=state if state in OVER else "")

    def _note(self, pod: dict[str, Any], kind: str, **more: Any) -> None:
        run, now = Run.of(pod["metadata"]["name"]), time.time()
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        self._events.append(Event(now, kind, run, node, uuid=uid, when=now, **more))


def _end_of(pod: dict[str, Any]) -> str:
    """Return the state in Mesos' words of a pod that has ended."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    ended = (statuses[0].get("state") or {}).get("terminated")
    if pod["metadata"].get("deletionTimestamp"):
        return "TASK_KILLED"
    if ended is None:
        return "TASK_LOST"
    return "TASK_FINISHED" if pod["status"]["phase"] == "Succeeded" else "TASK_FAILED"


def _live_of(pod: dict[str, Any]) -> tuple[Run, str] | None:
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return None
    return Run.of(pod["metadata"]["name"]), pod["spec"]["nodeName"]


def _amounts(wire: dict[str, str]) -> dict[str, float]:
    return dict(_numbers(wire))


def _numbers(wire: dict[str, str]) -> Iterator[tuple[str, float]]:
    from hostmgr.kubernetes.core.quantities import quantity

    for name in AMOUNTS:
        if name in wire:
            yield name, float(quantity(str(wire[name])))
