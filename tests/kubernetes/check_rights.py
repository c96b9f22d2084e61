"""What hostmgr may do by deploy/kubernetes/rbac.yaml: all that it needs, and nothing that it does not."""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostmgr.core.agents.draining import Machine
from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.manifest import PodRules, claim_of
from hostmgr.kubernetes.sandboxes.logs import Logs
from peloton.clock import SystemClock
from peloton.kubernetes.access import Access, from_kubeconfig
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.commands import running
from peloton.model.pod_template import CONTAINER
from peloton.model.resources import milli
from peloton.model.volume import VolumeMount
from peloton.wire.secrets import add_secret
from tests.contract.backend.recorder import Recorder
from tests.contract.backend.systems import NAMESPACE, PORTS
from tests.kubernetes.real import RealKubernetes

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "rbac.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:peloton-hostmgr"
SECONDS = 60.0
FORBIDDEN, EXISTS = 403, 409
Right = tuple[int, int, str]
"""Number of the document in the file, number of its rule, verb."""


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILE.read_text()))


def rights() -> list[Right]:
    return [
        (number, rule, verb)
        for number, document in enumerate(documents())
        for rule, each in enumerate(document.get("rules") or ())
        for verb in each["verbs"]
    ]


def named(right: Right) -> str:
    number, rule, verb = right
    document = documents()[number]
    resource = document["rules"][rule]["resources"][0].replace("/", "-")
    return f"{verb}-{resource}-{document['metadata'].get('namespace', 'everywhere')}"


def path_of(document: dict[str, Any]) -> str:
    """Return where objects of its kind are."""
    kinds = {"Namespace": "/api/v1", "ServiceAccount": "/api/v1"}
    namespace = document["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{kinds.get(document['kind'], RBAC)}{within}/{document['kind'].lower()}s"


class Rights:
    """A cluster on which hostmgr has the rights of the file."""

    def __init__(self, system: RealKubernetes) -> None:
        self.admin = from_kubeconfig(system.kubeconfig)
        self.access = asyncio.run(self._grant())

    async def _grant(self) -> Access:
        async with ApiClient(self.admin) as client:
            for document in documents():
                try:
                    await client.call("POST", path_of(document), document)
                except ApiError as error:
                    assert error.status == EXISTS, error
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/peloton-hostmgr/token"
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            token = (await client.call("POST", path, body))["status"]["token"]
        return Access(self.admin.server, self.admin.tls, token, namespace=NAMESPACE)

    async def set(self, right: Right, allowed: bool) -> None:
        """Take a right away, or give it back; wait until that counts."""
        number, rule, verb = right
        document = copy.deepcopy(documents()[number])
        given = document["rules"][rule]
        if not allowed:
            given["verbs"].remove(verb)
            if not given["verbs"]:
                document["rules"].remove(given)
        resource, _, inner = given["resources"][0].partition("/")
        asked = {
            "verb": verb,
            "resource": resource,
            "subresource": inner,
            "group": given["apiGroups"][0],
            "namespace": document["metadata"].get("namespace", ""),
            "name": (given.get("resourceNames") or [""])[0],
        }
        review = {"spec": {"user": ACCOUNT, "resourceAttributes": asked}}
        async with ApiClient(self.admin) as client, asyncio.timeout(SECONDS):
            await client.call("PUT", f"{path_of(document)}/{document['metadata']['name']}", document)
            while True:
                path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
                found = (await client.call("POST", path, review))["status"].get("allowed", False)
                if found == allowed:
                    return
                await asyncio.sleep(0.02)

    async def clear(self) -> None:
        """Delete what a test has left, so that the next one has all nodes."""
        async with ApiClient(self.admin) as client:
            for kind in ("pods", "secrets", "persistentvolumeclaims"):
                path, now = f"/api/v1/namespaces/{NAMESPACE}/{kind}", {"gracePeriodSeconds": 0}
                await client.call("DELETE", path, now)


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rights]:
    system = RealKubernetes(tmp_path_factory.mktemp("rights"))
    try:
        system.start()
        yield Rights(system)
    finally:
        system.stop()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what the API server refuses for want of a right."""
    found: list[str] = []

    class Noted(ApiError):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if self.status == FORBIDDEN:
                found.append(str(self))

    monkeypatch.setattr("peloton.kubernetes.client.ApiError", Noted)
    return found


async def everything(rights: Rights) -> None:
    """Do all that hostmgr does. Raises AssertionError where something does not come to be."""
    client = ApiClient(rights.access)
    rules = ClusterRules(NAMESPACE, ports=(PORTS,), keep_finished=0.0)
    backend = KubernetesBackend(client, "", "", rules, PodRules(NAMESPACE, "process"), SystemClock())
    leader = Recorder(backend)
    try:
        await leader.connected()
        await backend.quota()
        task = leader.task("echo told; sleep 1000")
        add_secret(task.payload, "/key", secrets.token_bytes(8))  # type: ignore[arg-type]
        run = leader.run()
        leader.launch(task)
        await leader.runs(run)
        async with ApiClient(rights.access) as other:
            logs = Logs(other, NAMESPACE, CONTAINER, lambda pod: False, lambda: 0.0)
            async with asyncio.timeout(SECONDS):
                while await logs.size(run) < len("told\n"):  # noqa: ASYNC110 - nothing tells it
                    await asyncio.sleep(0.05)
            async with running(other, NAMESPACE, run, CONTAINER, ["true"], terminal=False) as command:
                async for _ in command.output():
                    pass
            assert command.exit_code == 0
        await _relaunch(rights, leader, run)
        await _have_a_volume(rights, leader)
        await _maintain(leader)
        await _evict(leader)
        backend.kill([(run, "")])
        await leader.ends(run)
        await _gone(rights, run)
    finally:
        await leader.stop()


async def _relaunch(rights: Rights, leader: Recorder, run: str) -> None:
    """Launch a run while its name is taken: hostmgr asks for the pod, and it is not ours."""
    other = leader.run(1)
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    taken = {
        "metadata": {"name": other},
        "spec": {"schedulerName": "nobody", "containers": [{"name": CONTAINER, "image": "process"}]},
    }
    async with ApiClient(rights.admin) as admin:
        await admin.call("POST", pods, taken)
        await leader.until(lambda: leader.offers, "an offer")
        leader.launch(leader.task("true", 1))
        await leader.ends(other)
        await admin.call("DELETE", f"{pods}/{other}", {"gracePeriodSeconds": 0})


async def _have_a_volume(rights: Rights, leader: Recorder) -> None:
    """Launch a run with a volume whose claim is there by an earlier try, and destroy the volume."""
    run = leader.run(2)
    mount = VolumeMount(run, milli(10), "data", create=True)
    task = replace(leader.task("true", 2), volume=mount)
    claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    await leader.until(lambda: leader.offers, "an offer")
    node = leader.on_host()[0].agent_id
    claim = claim_of(task, node, PodRules(NAMESPACE))
    async with ApiClient(rights.admin) as admin:
        await admin.call("POST", claims, claim)
        await leader.until(lambda: leader.volume(run), "the volume is offered")
        leader.launch(task, on=node)
        await leader.ends(run)
        found = await leader.until(lambda: leader.volume(run), "the volume is offered again")
        assert found is not None
        leader.offers.pop(found.offer.id)
        leader.backend.destroy_volume(found)
        await _missing(admin, f"{claims}/{run}")


async def _maintain(leader: Recorder) -> None:
    agents = (await leader.backend.agents()).agents
    machine = Machine(agents[0].hostname, agents[0].ip)
    await leader.backend.change_schedule([machine], [])
    await leader.backend.change_schedule([], [machine])


async def _evict(leader: Recorder) -> None:
    run = leader.run(3)
    await leader.until(lambda: leader.offers, "an offer")
    leader.launch(leader.task("sleep 1000", 3))
    await leader.runs(run)
    leader.backend.kill([(run, "")], maintenance=True)
    await leader.ends(run)


async def _gone(rights: Rights, run: str) -> None:
    """Wait until pod and Secret of a run are gone."""
    async with ApiClient(rights.admin) as admin:
        for kind in ("pods", "secrets"):
            await _missing(admin, f"/api/v1/namespaces/{NAMESPACE}/{kind}/{run}")


async def _missing(admin: ApiClient, path: str) -> None:
    """Wait until there is nothing at a path."""
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                await admin.call("GET", path)
                await asyncio.sleep(0.05)
    except ApiError as error:
        assert error.status == 404, error


async def test_hostmgr_has_the_rights_that_it_needs(granted: Rights, refused: list[str]) -> None:
    await everything(granted)
    assert not refused


@pytest.mark.parametrize("right", rights(), ids=named)
async def test_hostmgr_has_no_right_that_it_does_not_need(
    granted: Rights, refused: list[str], right: Right
) -> None:
    await granted.set(right, allowed=False)
    work = asyncio.ensure_future(everything(granted))
    try:
        async with asyncio.timeout(SECONDS):
            while not refused and not work.done():  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0.02)
        assert refused, f"without it, nothing is refused: {work}"
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await granted.set(right, allowed=True)
        await granted.clear()
