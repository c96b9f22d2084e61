"""Launches as pods: what is in them, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from hostmgr.kubernetes.core.nodes import parse_toleration
from hostmgr.kubernetes.core.volumes import VolumeClaim
from hostmgr.kubernetes.core.volumes import claim_of as volume_claim
from hostmgr.kubernetes.manifest import PodRules, claim_of, literal, pod_manifest, secret_of
from mesos.v1 import mesos_pb2
from minicluster.kubernetes.kubelet.translation import CannotBeRun, expanded, task_of
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.resources import Resources
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount
from peloton.wire.secrets import add_secret
from tests.unit.hostmgr_kubernetes.objects import JOB, RUN

RULES = PodRules("peloton", "debian:12")
SANDBOX = "/mnt/mesos/sandbox"
OWN, MOUNT = {"name": "sandbox", "emptyDir": {}}, {"name": "sandbox", "mountPath": SANDBOX}


def config(**changes: Any) -> task_pb2.TaskConfig:
    made = task_pb2.TaskConfig(command=mesos_pb2.CommandInfo(value="echo $HOME"))
    made.MergeFrom(task_pb2.TaskConfig(**changes))
    return made


def manifest(made: task_pb2.TaskConfig, rules: PodRules = RULES, **changes: Any) -> dict[str, Any]:
    given = {"resources": Resources.of(cpu=0.5, memory=64, gpu=1), "payload": made, **changes}
    return pod_manifest(Launch(RUN, **given), "n1", rules)


def test_a_pod_is_bound_to_its_node_and_named_after_its_run() -> None:
    labels = [peloton_pb2.Label(key="team", value="ads"), peloton_pb2.Label(key="a b", value="ü")]
    found = manifest(config(labels=labels))
    assert found["metadata"] == {
        "name": RUN,
        "namespace": "peloton",
        "labels": {
            "team": "ads",
            "peloton.job_id": JOB,
            "peloton.instance_id": "0",
            "peloton.task_id": f"{JOB}-0",
            "app.kubernetes.io/managed-by": "peloton",
        },
        "annotations": {"peloton/labels": json.dumps([["team", "ads"], ["a b", "ü"]])},
    }
    spec = found["spec"]
    assert (spec["nodeName"], spec["restartPolicy"]) == ("n1", "Never")
    assert spec["terminationGracePeriodSeconds"] == 30
    assert not spec["automountServiceAccountToken"]
    assert "hostNetwork" not in spec
    (container,) = spec["containers"]
    assert container["image"] == "debian:12"
    assert container["command"] == ["/bin/sh", "-c", "echo $$HOME"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "67108864", "nvidia.com/gpu": "1"},
        "limits": {"memory": "67108864", "nvidia.com/gpu": "1"},
    }


def test_a_user_cannot_take_labels_that_decide() -> None:
    labels = [
        peloton_pb2.Label(key="app.kubernetes.io/managed-by", value="me"),
        peloton_pb2.Label(key="peloton.job_id", value="x"),
    ]
    found = manifest(config(labels=labels))["metadata"]["labels"]
    assert found["app.kubernetes.io/managed-by"] == "peloton"
    assert found["peloton.job_id"] == JOB


def test_ports_are_those_of_the_host() -> None:
    ports = [task_pb2.PortConfig(name="http", envName="HTTP"), task_pb2.PortConfig(name="admin", value=80)]
    spec = manifest(config(ports=ports), ports={"http": 31007, "admin": 80})["spec"]
    assert spec["hostNetwork"]
    (container,) = spec["containers"]
    assert [each["hostPort"] for each in container["ports"]] == [80, 31007]
    assert {"name": "HTTP", "value": "31007"} in container["env"]


def test_variables_of_peloton_come_last() -> None:
    made = config()
    made.command.environment.variables.add(name="PELOTON_JOB_ID", value="$(mine)")
    names = [each["name"] for each in manifest(made)["spec"]["containers"][0]["env"]]
    own = ["PELOTON_JOB_ID", "PELOTON_INSTANCE_ID", "PELOTON_TASK_ID", "MESOS_TASK_ID"]
    assert names == ["PELOTON_JOB_ID", *own, "MESOS_SANDBOX", "MESOS_DIRECTORY"]


@pytest.mark.parametrize("text", ["$HOME", "$$", "$(date) $(HOME)", "a$", "$$$(x)", ""])
def test_nothing_in_a_command_is_replaced(text: str) -> None:
    assert expanded(literal(text), {"HOME": "/", "date": "x", "x": "y"}) == text


def test_a_program_with_arguments() -> None:
    made = task_pb2.TaskConfig()
    made.command.shell, made.command.value = False, "/bin/echo"
    made.command.arguments.extend(["echo", "a b"])
    assert manifest(made)["spec"]["containers"][0]["command"] == ["/bin/echo", "a b"]


def test_images() -> None:
    docker = mesos_pb2.ContainerInfo(type=mesos_pb2.ContainerInfo.DOCKER)
    docker.docker.image, docker.docker.force_pull_image = "nginx:1", True
    (container,) = manifest(config(container=docker))["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("nginx:1", "Always")
    mesos = mesos_pb2.ContainerInfo(type=mesos_pb2.ContainerInfo.MESOS)
    mesos.mesos.image.type, mesos.mesos.image.docker.name = mesos_pb2.Image.DOCKER, "redis:7"
    assert manifest(config(container=mesos))["spec"]["containers"][0]["image"] == "redis:7"
    with pytest.raises(InvalidArgument, match="container: 'no image'"):
        manifest(config(), PodRules("peloton"))


def test_health_checks_are_probes() -> None:
    check = task_pb2.HealthCheckConfig(enabled=True, type=task_pb2.HealthCheckConfig.HTTP, intervalSecs=5)
    check.httpCheck.port, check.httpCheck.path = 8080, "/ok"
    (container,) = manifest(config(healthCheck=check))["spec"]["containers"]
    assert container["livenessProbe"] == {
        "initialDelaySeconds": 0,
        "periodSeconds": 5,
        "timeoutSeconds": 20,
        "failureThreshold": 3,
        "httpGet": {"scheme": "HTTP", "port": 8080, "path": "/ok"},
    }
    assert container["readinessProbe"]["failureThreshold"] == 1
    check.type, check.commandCheck.command = task_pb2.HealthCheckConfig.COMMAND, "test -e $HOME/ok"
    (container,) = manifest(config(healthCheck=check))["spec"]["containers"]
    assert container["livenessProbe"]["exec"] == {"command": ["/bin/sh", "-c", "test -e $HOME/ok"]}


def test_a_folder_of_the_host() -> None:
    made = config()
    made.container.type = mesos_pb2.ContainerInfo.MESOS
    made.container.volumes.add(mode=mesos_pb2.Volume.RO, host_path="/data", container_path="/in")
    spec = manifest(made)["spec"]
    assert spec["volumes"] == [OWN, {"name": "v0", "hostPath": {"path": "/data"}}]
    mounts = [MOUNT, {"name": "v0", "mountPath": "/in", "readOnly": True}]
    assert spec["containers"][0]["volumeMounts"] == mounts


def test_the_template_and_tolerations_of_the_site() -> None:
    template = {
        "spec": {"runtimeClassName": "gvisor", "automountServiceAccountToken": True},
        "metadata": {"labels": {"site": "x"}},
    }
    rules = PodRules(
        "peloton", "i", (parse_toleration("gpu=a:NoSchedule"), parse_toleration("*")), template=template
    )
    found = manifest(config(), rules)
    assert found["spec"]["runtimeClassName"] == "gvisor"
    assert found["spec"]["automountServiceAccountToken"], "it is false by default alone"
    assert found["spec"]["restartPolicy"] == "Never"
    assert found["metadata"]["labels"]["site"] == "x"
    assert found["spec"]["tolerations"] == [
        {"operator": "Equal", "key": "gpu", "value": "a", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]


TEMPLATE = """
metadata: {annotations: {example.com/a: "1"}}
spec:
  runtimeClassName: kata
  volumes: [{name: cache, emptyDir: {}}]
  containers:
  - name: task
    env: [{name: HOME, value: /tmp}, {name: PELOTON_JOB_ID, value: forged}]
    volumeMounts: [{name: cache, mountPath: /cache}]
    securityContext: {allowPrivilegeEscalation: false}
"""
FIELDS = ("metadata.annotations", "spec.runtimeClassName", "spec.volumes", "spec.containers")


def test_the_template_of_a_job_is_between_that_of_the_site_and_what_peloton_says() -> None:
    site = {"spec": {"runtimeClassName": "gvisor", "priorityClassName": "low"}}
    rules = PodRules("peloton", "i", template=site, job_fields=FIELDS)
    made = config(podTemplate=TEMPLATE, labels=[peloton_pb2.Label(key="team", value="ads")])
    made.command.user = "7"
    made.container.volumes.add(mode=mesos_pb2.Volume.RO, container_path="/c", host_path="/h")
    found = manifest(made, rules)
    spec, (container,) = found["spec"], found["spec"]["containers"]
    assert (spec["runtimeClassName"], spec["priorityClassName"]) == ("kata", "low")
    assert {"example.com/a", "peloton/labels"} == set(found["metadata"]["annotations"])
    assert [each["name"] for each in spec["volumes"]] == ["cache", "sandbox", "v0"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/cache", SANDBOX, "/c"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "runAsUser": 7}
    values = {each["name"]: each["value"] for each in container["env"]}
    assert (values["HOME"], values["PELOTON_JOB_ID"]) == ("/tmp", JOB)
    assert len(values) == len(container["env"])


def test_a_job_may_set_nothing_that_the_site_does_not_name() -> None:
    with pytest.raises(InvalidArgument, match=r"podTemplate\.metadata\.annotations\.example\.com/a: .*jobs"):
        manifest(config(podTemplate=TEMPLATE))
    rules = replace(RULES, job_fields=FIELDS[:3])
    with pytest.raises(InvalidArgument, match=r"podTemplate\.spec\.containers\[0\]\.env\[0\]") as told:
        manifest(config(podTemplate=TEMPLATE), rules)
    assert "metadata.annotations, spec.runtimeClassName, spec.volumes" in str(told.value)


def refused() -> list[tuple[str, task_pb2.TaskConfig, dict[str, Any]]]:
    """Return what has no form on Kubernetes here, with the path that is told."""
    uris, user, volume = config(), config(), config()
    uris.command.uris.add(value="http://x/y")
    user.command.user = "nobody"
    volume.container.type = mesos_pb2.ContainerInfo.MESOS
    volume.container.volumes.add(
        mode=mesos_pb2.Volume.RO, container_path="/s"
    ).source.type = mesos_pb2.Volume.Source.HOST_PATH
    signal = config()
    signal.workload.stop_signal = "SIGUSR1"
    executor = config()
    executor.executor.type = mesos_pb2.ExecutorInfo.CUSTOM
    executor.executor.executor_id.value = "e"
    privileged, parameters = config(), config()
    for each in (privileged, parameters):
        each.container.type = mesos_pb2.ContainerInfo.DOCKER
        each.container.docker.image = "i"
    privileged.container.docker.privileged = True
    parameters.container.docker.parameters.add(key="shm-size", value="1g")
    return [
        ("container.docker.privileged", privileged, {}),
        ("container.docker.parameters", parameters, {}),
        ("command.uris", uris, {}),
        ("command.user", user, {}),
        (r"container.volumes\[0\].source.type", volume, {}),
        ("workload.stop_signal", signal, {}),
        ("executor.type", executor, {}),
        ("revocable", config(), {"revocable": True}),
    ]


@pytest.mark.parametrize(
    ("path", "made", "changes"), refused(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_what_cannot_be_kept_is_refused(
    path: str, made: task_pb2.TaskConfig, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument, match=f"^{path}: "):
        manifest(made, **changes)


# Secrets.


def with_secrets() -> task_pb2.TaskConfig:
    made = config()
    add_secret(made, "/etc/secrets/key", b"file content")
    add_secret(made, ".peloton/token", b"token content")
    variable = made.command.environment.variables.add(name="S", type=mesos_pb2.Environment.Variable.SECRET)
    variable.secret.type, variable.secret.value.data = mesos_pb2.Secret.VALUE, b"variable content"
    made.command.environment.variables.add(name="T", value="plain")
    return made


def test_a_new_volume_is_a_claim_for_its_node_and_the_pod_mounts_it() -> None:
    volume = VolumeMount(RUN, 100_000, "data", create=True)
    launch = Launch(RUN, Resources.of(cpu=1), config(), volume=volume)
    claim = claim_of(launch, "n1", replace(RULES, storage_class="local"))
    assert claim is not None
    assert claim["metadata"]["name"] == RUN
    assert claim["metadata"]["annotations"] == {
        "peloton/node": "n1",
        "volume.kubernetes.io/selected-node": "n1",
    }
    assert claim["spec"]["resources"]["requests"]["storage"] == str(100 * 2**20)
    assert claim["spec"]["storageClassName"] == "local"
    assert "storageClassName" not in (claim_of(launch, "n1", RULES) or {})["spec"]
    read = volume_claim({**claim, "metadata": {**claim["metadata"], "uid": "u"}})
    assert read == VolumeClaim(RUN, "u", "n1", 100_000)

    spec = pod_manifest(launch, "n1", RULES)["spec"]
    assert spec["volumes"] == [OWN, {"name": "persistent", "persistentVolumeClaim": {"claimName": RUN}}]
    (container,) = spec["containers"]
    mounts = [MOUNT, {"name": "persistent", "mountPath": "/mnt/mesos/sandbox/data"}]
    assert container["volumeMounts"] == mounts
    assert container["workingDir"] == "/mnt/mesos/sandbox"
    assert {"name": "MESOS_SANDBOX", "value": "/mnt/mesos/sandbox"} in container["env"]


def test_a_volume_that_is_there_needs_no_claim_and_has_its_path() -> None:
    volume = VolumeMount(RUN, 100_000, "/data", create=False)
    launch = Launch(RUN, Resources.of(cpu=1), config(), volume=volume)
    assert claim_of(launch, "n1", RULES) is None
    (container,) = pod_manifest(launch, "n1", RULES)["spec"]["containers"]
    assert container["volumeMounts"] == [MOUNT, {"name": "persistent", "mountPath": "/data"}]
    assert "workingDir" not in container


def test_the_pod_names_its_secret_and_holds_no_content() -> None:
    found = manifest(with_secrets())
    (container,) = found["spec"]["containers"]
    volume = {"name": "secrets", "secret": {"secretName": RUN, "defaultMode": 0o444}}
    assert found["spec"]["volumes"] == [OWN, volume]
    own, *mounts = container["volumeMounts"]
    assert own == MOUNT, "what is mounted into it comes later"
    places = {each["mountPath"]: (each["subPath"], each["readOnly"]) for each in mounts}
    assert places == {
        "/etc/secrets/key": ("file-0", True),
        "/mnt/mesos/sandbox/.peloton/token": ("file-1", True),
    }
    variables = {each["name"]: each for each in container["env"]}
    reference = {"secretKeyRef": {"name": RUN, "key": "variable-0"}}
    assert variables["S"] == {"name": "S", "valueFrom": reference}
    assert variables["MESOS_SANDBOX"]["value"] == "/mnt/mesos/sandbox"
    text = json.dumps(found)
    for content in (b"file content", b"token content", b"variable content"):
        assert content.decode() not in text
        assert base64.b64encode(content).decode() not in text


def test_the_secret_of_a_run() -> None:
    launch = Launch(RUN, Resources.of(cpu=1), with_secrets())
    found = secret_of(launch, RULES)
    assert found is not None
    assert found["metadata"]["name"] == RUN and found["immutable"]
    contents = {key: base64.b64decode(text) for key, text in found["data"].items()}
    assert contents == {
        "file-0": b"file content",
        "file-1": b"token content",
        "variable-0": b"variable content",
    }
    assert secret_of(Launch(RUN, Resources.of(cpu=1), config()), RULES) is None


def test_secrets_that_cannot_be_kept_are_refused() -> None:
    long, reference = config(), config()
    add_secret(long, "/s", b"x" * (1024 * 1024 + 1))
    reference.command.environment.variables.add(name="S", type=mesos_pb2.Environment.Variable.SECRET)
    for made, path in ((long, "secrets"), (reference, "variable-0")):
        with pytest.raises(InvalidArgument, match=f"^{path}: "):
            secret_of(Launch(RUN, Resources.of(cpu=1), made), RULES)


def test_a_process_has_the_same_secrets() -> None:
    """The process kubelet puts them where Mesos has them."""
    pod = manifest(with_secrets())
    secret = secret_of(Launch(RUN, Resources.of(cpu=1), with_secrets()), RULES)
    assert secret is not None
    data = {key: base64.b64decode(text) for key, text in secret["data"].items()}
    task = task_of(pod, {f"secrets/{RUN}": data})
    files = {each.container_path: each.source.secret.value.data for each in task.container.volumes}
    assert files == {"/etc/secrets/key": b"file content", ".peloton/token": b"token content"}
    variables = {each.name: each.value for each in task.command.environment.variables}
    assert (variables["S"], variables["T"]) == ("variable content", "plain")
    assert not {"MESOS_SANDBOX", "MESOS_DIRECTORY"} & set(variables), "a process has its sandbox elsewhere"
    with pytest.raises(CannotBeRun, match="has no variable-0"):
        task_of(pod, {f"secrets/{RUN}": {}})


def test_folders_of_the_sandbox_end_with_the_pod() -> None:
    """They are what v1alpha calls EMPTY_DIR."""
    made = config()
    made.container.type = mesos_pb2.ContainerInfo.MESOS
    own = made.container.volumes.add(mode=mesos_pb2.Volume.RW, container_path="/scratch")
    own.source.type = mesos_pb2.Volume.Source.SANDBOX_PATH
    own.source.sandbox_path.type = mesos_pb2.Volume.Source.SandboxPath.SELF
    own.source.sandbox_path.path = "scratch"
    made.container.volumes.add(mode=mesos_pb2.Volume.RO, host_path="cache", container_path="/cache")
    spec = manifest(made)["spec"]
    assert spec["volumes"] == [OWN, {"name": "v0", "emptyDir": {}}, {"name": "v1", "emptyDir": {}}]
    assert spec["containers"][0]["volumeMounts"] == [
        MOUNT,
        {"name": "v0", "mountPath": "/scratch"},
        {"name": "v1", "mountPath": "/cache", "readOnly": True},
    ]


def test_each_pod_has_a_sandbox_where_mesos_has_it() -> None:
    made = config()
    made.command.environment.variables.add(name="MESOS_SANDBOX", value="/mine")
    spec = manifest(made)["spec"]
    (container,) = spec["containers"]
    assert (spec["volumes"], container["volumeMounts"]) == ([OWN], [MOUNT])
    assert "workingDir" not in container, "that of the image counts"
    values = {each["name"]: each["value"] for each in container["env"]}  # the later one counts
    assert values["MESOS_SANDBOX"] == values["MESOS_DIRECTORY"] == SANDBOX


@pytest.mark.parametrize("path", [SANDBOX, f"{SANDBOX}/"])
def test_what_a_site_or_a_job_mounts_as_the_sandbox_is_the_sandbox(path: str) -> None:
    mount = {"name": "ssd", "mountPath": path}
    template = {
        "spec": {"volumes": [{"name": "ssd"}], "containers": [{"name": "task", "volumeMounts": [mount]}]}
    }
    spec = manifest(config(), replace(RULES, template=template))["spec"]
    assert (spec["volumes"], spec["containers"][0]["volumeMounts"]) == ([{"name": "ssd"}], [mount])
    made = config()
    made.container.volumes.add(mode=mesos_pb2.Volume.RW, host_path="/data", container_path=path)
    assert [each["name"] for each in manifest(made)["spec"]["volumes"]] == ["v0"]


def test_a_persistent_volume_that_is_the_whole_sandbox() -> None:
    launch = Launch(RUN, Resources.of(cpu=1), config(), volume=VolumeMount(RUN, 100_000, ".", create=False))
    assert [each["name"] for each in pod_manifest(launch, "n1", RULES)["spec"]["volumes"]] == ["persistent"]
