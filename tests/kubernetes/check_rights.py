"""What hostmgr may do by deploy/kubernetes/rbac.yaml: all that it needs, and nothing that it does not."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hostmgr.core.agents.draining import Machine
from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.manifest import PodRules, claim_of
from hostmgr.kubernetes.sandboxes.logs import Logs
from peloton.clock import SystemClock
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.commands import running
from peloton.model.pod_template import CONTAINER
from peloton.model.resources import milli
from peloton.model.volume import VolumeMount
from peloton.wire.secrets import add_secret
from tests.contract.backend.recorder import Recorder
from tests.contract.backend.systems import NAMESPACE, PORTS
from tests.kubernetes.real import RealKubernetes
from tests.kubernetes.rights import FILE, SECONDS, Right, Rights, is_refused, named, noted, rights


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rights]:
    system = RealKubernetes(tmp_path_factory.mktemp("rights"))
    try:
        system.start()
        yield Rights(system, FILE)
    finally:
        system.stop()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return noted(monkeypatch)


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


@pytest.mark.parametrize("right", rights(FILE), ids=named)
async def test_hostmgr_has_no_right_that_it_does_not_need(
    granted: Rights, refused: list[str], right: Right
) -> None:
    await is_refused(granted, refused, right, everything(granted))
