"""What the official Python client of Kubernetes does with the API in its style.

It is run by the environment of locks/kubernetes-client.txt, and imports nothing of ours: the first argument
is a kubeconfig, the second a namespace. It ends with an error at the first answer that is not as expected.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream
from kubernetes.utils import create_from_dict

SECONDS = 60
RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}}


def pods_of(command: str, policy: str | None = None, **labels: str) -> client.V1PodTemplateSpec:
    """A template of pods that run a command of a shell."""
    container = client.V1Container(
        name="main",
        command=["sh", "-c", command],
        resources=client.V1ResourceRequirements(**RESOURCES),
    )
    spec = client.V1PodSpec(containers=[container], restart_policy=policy, termination_grace_period_seconds=1)
    return client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels or None), spec=spec)


def job(name: str, command: str, **spec: Any) -> client.V1Job:
    """A Job of two pods."""
    made = client.V1JobSpec(completions=2, parallelism=2, template=pods_of(command, "Never"), **spec)
    return client.V1Job(
        api_version="batch/v1", kind="Job", metadata=client.V1ObjectMeta(name=name), spec=made
    )


def wait_for(what: str, holds: Any) -> None:
    """Wait until something holds."""
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.2)


def refused(call: Any, *arguments: Any, **more: Any) -> ApiException:
    """Return why a call is refused."""
    try:
        call(*arguments, **more)
    except ApiException as error:
        return error
    raise AssertionError(f"{call} was not refused")


def jobs(namespace: str) -> None:
    """Make a Job, watch it to its end, read what its pods said, and delete it."""
    batch, core = client.BatchV1Api(), client.CoreV1Api()
    made = batch.create_namespaced_job(namespace, job("client", "echo from the client"))
    assert made.metadata.uid
    assert not made.spec.suspend
    seen = []
    for event in watch.Watch().stream(
        batch.list_namespaced_job,
        namespace,
        field_selector="metadata.name=client",
        resource_version=made.metadata.resource_version,
        timeout_seconds=SECONDS,
    ):
        seen.append(event["type"])
        if any(each.type == "Complete" for each in event["object"].status.conditions or []):
            break
    assert seen and set(seen) <= {"ADDED", "MODIFIED"}, seen
    pods = core.list_namespaced_pod(namespace, label_selector="job-name=client").items
    assert [pod.status.phase for pod in pods] == ["Succeeded"] * 2
    assert core.read_namespaced_pod_log(pods[0].metadata.name, namespace) == "from the client\n"
    assert refused(batch.create_namespaced_job, namespace, job("client", "true")).status == 409
    error = refused(batch.create_namespaced_job, namespace, job("other", "true", max_failed_indexes=1))
    assert (error.status, "spec.maxFailedIndexes" in error.body) == (422, True)
    batch.delete_namespaced_job("client", namespace, propagation_policy="Foreground")
    wait_for("the Job is deleted", lambda: not batch.list_namespaced_job(namespace).items)


def suspension(namespace: str) -> None:
    """Make a suspended Job, and let it go on."""
    batch = client.BatchV1Api()
    assert batch.create_namespaced_job(namespace, job("later", "true", suspend=True)).spec.suspend
    batch.patch_namespaced_job("later", namespace, {"spec": {"suspend": False}})
    wait_for("it ends", lambda: batch.read_namespaced_job_status("later", namespace).status.succeeded == 2)
    batch.delete_namespaced_job("later", namespace)


def schedules(namespace: str) -> None:
    """Make a CronJob, pause it and delete it."""
    batch = client.BatchV1Api()
    template = client.V1JobTemplateSpec(spec=job("", "true").spec)
    spec = client.V1CronJobSpec(schedule="30 3 * * *", concurrency_policy="Forbid", job_template=template)
    wanted = client.V1CronJob(metadata=client.V1ObjectMeta(name="nightly"), spec=spec)
    batch.create_namespaced_cron_job(namespace, wanted)
    assert batch.patch_namespaced_cron_job("nightly", namespace, {"spec": {"suspend": True}}).spec.suspend
    batch.delete_namespaced_cron_job("nightly", namespace)


def services(namespace: str) -> None:
    """Make a Deployment, scale and update it, run a command in a pod, and delete it."""
    apps, core = client.AppsV1Api(), client.CoreV1Api()
    template = {
        "metadata": {"labels": {"app": "served"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "command": ["sleep", "600"], "resources": RESOURCES}],
        },
    }
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "served"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "served"}}, "template": template},
    }
    create_from_dict(client.ApiClient(), made, namespace=namespace)
    apps.patch_namespaced_deployment_scale("served", namespace, {"spec": {"replicas": 2}})

    def ready() -> bool:
        status = apps.read_namespaced_deployment("served", namespace).status
        return bool(status.ready_replicas == 2 and status.updated_replicas == 2)

    wait_for("two pods are ready", ready)
    pod = core.list_namespaced_pod(namespace, label_selector="app=served").items[0].metadata.name
    said = stream(
        core.connect_get_namespaced_pod_exec,
        pod,
        namespace,
        command=["echo", "beside"],
        stdout=True,
        stderr=True,
    )
    assert said == "beside\n", said
    whole = apps.read_namespaced_deployment("served", namespace)
    whole.spec.template.spec.containers[0].env = [client.V1EnvVar(name="A", value="b")]
    apps.replace_namespaced_deployment("served", namespace, whole)
    wait_for("the update is through", ready)
    assert refused(apps.replace_namespaced_deployment, "served", namespace, whole).status == 409
    assert apps.list_namespaced_replica_set(namespace).items
    apps.delete_namespaced_deployment("served", namespace)
    wait_for("it is deleted", lambda: not core.list_namespaced_pod(namespace).items)


def secrets(namespace: str) -> None:
    """Make a Secret, which is not read back."""
    core = client.CoreV1Api()
    wanted = client.V1Secret(metadata=client.V1ObjectMeta(name="client"), string_data={"key": "hidden"})
    assert core.create_namespaced_secret(namespace, wanted).data == {"key": ""}
    found = core.read_namespaced_secret("client", namespace)
    found.metadata.labels = {"a": "b"}
    assert core.replace_namespaced_secret("client", namespace, found).metadata.labels == {"a": "b"}
    core.delete_namespaced_secret("client", namespace)


def cluster(namespace: str) -> None:
    """Read what there is."""
    core = client.CoreV1Api()
    assert namespace in [each.metadata.name for each in core.list_namespace().items]
    assert all(node.status.capacity["cpu"] for node in core.list_node().items)
    assert core.read_namespaced_resource_quota("pool", namespace).spec.hard["limits.cpu"]
    assert client.VersionApi().get_code().major == "1"
    groups = [each.name for each in client.ApisApi().get_api_versions().groups]
    assert groups == ["apps", "batch", "scheduling.k8s.io"], groups


def main() -> None:
    """Do all of it."""
    kubeconfig, namespace = sys.argv[1:]
    config.load_kube_config(kubeconfig)
    for part in (cluster, jobs, suspension, schedules, services, secrets):
        part(namespace)
        print(part.__name__, "done", flush=True)


if __name__ == "__main__":
    main()
