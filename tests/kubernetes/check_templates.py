"""Pod templates on a real API server: what it says to those of the site and of jobs."""

from __future__ import annotations

import pytest

from hostmgr.kubernetes.manifest import PodRules
from peloton.kubernetes.client import ApiClient
from peloton.model.states import TaskState
from peloton.model.task import Launch
from tests.contract.backend.recorder import Recorder, leading
from tests.contract.backend.systems import NAMESPACE
from tests.kubernetes.real import RealKubernetes

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
FIELDS = ("metadata.annotations", "spec.runtimeClassName", "spec.priorityClassName")


def templated(leader: Recorder, template: str) -> Launch:
    task = leader.task("true")
    task.payload.podTemplate = template  # type: ignore[attr-defined]
    return task


async def test_a_template_of_the_site_that_is_refused_is_told_until_what_it_names_is_there(
    system: RealKubernetes, admin: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostmgr.kubernetes.trial.AGAIN_SECONDS", 0.5)
    system.pods = PodRules(NAMESPACE, "process", template={"spec": {"runtimeClassName": "own"}})
    async with system.backend() as backend:
        leader = Recorder(backend)
        try:
            (problem,) = await leader.until(backend.problems, "a problem")
            assert 'RuntimeClass "own" not found' in problem.text
            assert not leader.offers
            made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "process"}
            await admin.call("POST", CLASSES, {**made, "metadata": {"name": "own"}})
            await leader.until(lambda: leader.offers, "an offer")
            assert backend.problems() == ()
            leader.launch(leader.task("true"))
            assert (await leader.ends(leader.run())).status.state is TaskState.SUCCEEDED
            pod = await admin.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{leader.run()}")
            assert pod["spec"]["runtimeClassName"] == "own"
        finally:
            await leader.stop()


async def test_a_field_that_kubernetes_does_not_know_is_refused(system: RealKubernetes) -> None:
    system.pods = PodRules(NAMESPACE, "process", template={"spec": {"runtimeClasName": "own"}})
    async with system.backend() as backend:
        leader = Recorder(backend)
        try:
            (problem,) = await leader.until(backend.problems, "a problem")
            assert 'unknown field "spec.runtimeClasName"' in problem.text
        finally:
            await leader.stop()


async def test_what_a_job_adds(system: RealKubernetes, admin: ApiClient) -> None:
    system.pods = PodRules(NAMESPACE, "process", job_fields=FIELDS)
    async with leading(system) as leader:
        leader.launch(templated(leader, 'metadata: {annotations: {example.com/a: "1"}}'))
        assert (await leader.ends(leader.run())).status.state is TaskState.SUCCEEDED
        pod = await admin.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{leader.run()}")
        assert pod["metadata"]["annotations"]["example.com/a"] == "1"


async def test_a_template_of_a_job_is_tried_before_its_launch(system: RealKubernetes) -> None:
    system.pods = PodRules(NAMESPACE, "process", job_fields=("metadata", "spec"))
    async with leading(system) as leader:
        for template, told in (
            ("metadata: {annotations: {example.com/a: b}}", ""),
            ("spec: {runtimeClassName: nosuch}", 'RuntimeClass "nosuch" not found'),
            ("spec: {priorityClassName: nosuch}", "no PriorityClass with name nosuch was found"),
            ("spec: {runtimeClasName: nosuch}", 'unknown field "spec.runtimeClasName"'),
        ):
            refusal = await leader.backend.try_task(templated(leader, template))
            assert told in refusal and bool(told) is bool(refusal), refusal


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("spec: {runtimeClassName: nosuch}", 'RuntimeClass "nosuch" not found'),
        ("metadata: {annotations: {a: 1}}", "annotations"),
    ],
)
async def test_a_template_of_a_job_that_is_refused_ends_its_run(
    system: RealKubernetes, template: str, told: str
) -> None:
    system.pods = PodRules(NAMESPACE, "process", job_fields=FIELDS)
    async with leading(system) as leader:
        leader.launch(templated(leader, template))
        end = (await leader.ends(leader.run())).status
        assert told in end.message and end.state in (TaskState.FAILED, TaskState.LOST)
