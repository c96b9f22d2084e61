"""Maintenance on a real API server: PodDisruptionBudgets are kept to, as its own eviction API does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from peloton.kubernetes.client import MERGE, ApiClient
from peloton.model.states import TaskState
from tests.contract.backend.recorder import Recorder, leading
from tests.contract.backend.systems import NAMESPACE
from tests.kubernetes.real import RealKubernetes

BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"


@pytest.fixture
async def admin(admin: ApiClient) -> AsyncIterator[ApiClient]:
    yield admin
    await admin.call("DELETE", BUDGETS)


@pytest.fixture
async def leader(system: RealKubernetes) -> AsyncIterator[Recorder]:
    async with leading(system) as it:
        yield it


async def allow(admin: ApiClient, name: str, disruptions: int) -> None:
    """Say how many pods may be evicted, as the controller of budgets does, which does not run here."""
    status = {"status": {"disruptionsAllowed": disruptions, "observedGeneration": 1, "expectedPods": 1}}
    status["status"] |= {"currentHealthy": 1, "desiredHealthy": 1}
    await admin.call("PATCH", f"{BUDGETS}/{name}/status", status, content_type=MERGE)


async def budget(admin: ApiClient, name: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/managed-by": "peloton"}}}
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": spec,
    }
    await admin.call("POST", BUDGETS, body)
    await allow(admin, name, 0)


async def running(leader: Recorder) -> str:
    run = leader.run()
    leader.launch(leader.task("sleep 1000"))
    await leader.runs(run)
    return run


async def test_a_budget_keeps_a_run_until_it_allows_its_eviction(leader: Recorder, admin: ApiClient) -> None:
    await budget(admin, "web")
    run = await running(leader)
    leader.backend.kill([(run, "")], maintenance=True)
    (problem,) = await leader.until(leader.backend.problems, "a problem")
    assert "The disruption budget web needs 1 healthy pods and has 1 currently" in problem.text
    assert leader.states(run)[-1] is TaskState.RUNNING
    await allow(admin, "web", 1)
    assert (await leader.ends(run)).status.state is TaskState.KILLED
    assert leader.backend.problems() == () and not leader.disconnections


async def test_a_kill_ends_at_once_what_a_budget_keeps(leader: Recorder, admin: ApiClient) -> None:
    await budget(admin, "web")
    run = await running(leader)
    leader.backend.kill([(run, "")], maintenance=True)
    await leader.until(leader.backend.problems, "a problem")
    leader.backend.kill([(run, "")])
    assert (await leader.ends(run)).status.state is TaskState.KILLED
    assert leader.backend.problems() == ()


async def test_two_budgets_of_one_pod_are_told_and_end_no_connection(
    leader: Recorder, admin: ApiClient
) -> None:
    await budget(admin, "web")
    await budget(admin, "second")
    run = await running(leader)
    leader.backend.kill([(run, "")], maintenance=True)
    (problem,) = await leader.until(leader.backend.problems, "a problem")
    assert "more than one PodDisruptionBudget" in problem.text
    await admin.call("DELETE", f"{BUDGETS}/second")
    await allow(admin, "web", 1)
    assert (await leader.ends(run)).status.state is TaskState.KILLED
    assert not leader.disconnections
