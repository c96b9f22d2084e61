"""Pod templates, as pod specs of ours."""

from __future__ import annotations

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.apachemesos import apachemesos_pb2
from peloton.api.v1alpha.volume import volume_pb2
from peloton.web.kube.core.containers import container_of
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.names import ANNOTATION_LABEL
from peloton.web.kube.core.secret_uses import Keys, SecretFile, SecretUses

HOSTNAME = "kubernetes.io/hostname"
DEFAULT_GRACE_SECONDS = 30
_HINTS = {
    "initContainers": "Peloton runs one container for each pod",
    "affinity": "use nodeSelector",
    "tolerations": "hostmgr's settings have tolerations",
    "topologySpreadConstraints": "Peloton has no such constraint",
    "nodeName": "Peloton chooses the host: use nodeSelector",
    "imagePullSecrets": "agents have the credentials of registries",
    "serviceAccount": "tasks have no service account",
    "priority": "give priorityClassName",
    "hostAliases": "a task has its host's names",
    "securityContext": "tasks run as their agent runs them",
}
_VOLUMES = "use emptyDir, hostPath or secret"
Volumes = volume_pb2.VolumeSpec


class Template:
    """A template that was read: the pod, and what of it is the job's."""

    def __init__(
        self,
        node: Node,
        restart_policies: tuple[str, ...],
        indexed: bool = False,
        claim: str = "",
        secrets: Keys | None = None,
    ) -> None:
        """Read a template. The first of `restart_policies` is that of a template which names none.

        `claim`: the name of a persistent volume that each pod has of its own. `secrets`: those there are.
        """
        self._secrets = SecretUses(secrets or {})
        metadata, spec = node.node("metadata"), node.node("spec")
        self.labels = metadata.mapping("labels")
        self.annotations = metadata.mapping("annotations")
        for key in ("name", "generateName", "namespace"):
            metadata.text(key)  # those of the owner count, as with Kubernetes
        metadata.close()
        self.pod = pod_pb2.PodSpec()
        self.pod.labels.extend(_labels(self.labels))
        self.pod.labels.extend(
            _labels({f"{ANNOTATION_LABEL}{key}": text for key, text in self.annotations.items()})
        )
        self._secret_volumes(spec)
        self._containers(spec, indexed)
        if claim:
            self._claim(spec, claim)
        self._volumes(spec)
        if self._secrets.files:
            self.pod.mesos_spec.type = apachemesos_pb2.PodSpec.CONTAINER_TYPE_MESOS
        _select_hosts(spec, self.pod)
        grace = spec.integer("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        self.pod.kill_grace_period_seconds = max(1, grace)
        self.priority_class = spec.text("priorityClassName")
        self.deadline = spec.integer("activeDeadlineSeconds", 0, 1)
        _check_policy(spec, restart_policies)
        spec.close(_HINTS)
        node.close()

    @property
    def secret_files(self) -> tuple[SecretFile, ...]:
        """Return the files of Secrets that the pod is to have."""
        return self._secrets.files

    def _secret_volumes(self, spec: Node) -> None:
        for volume in spec.nodes("volumes"):
            if volume.given("secret"):
                self._secrets.volume(volume, volume.text("name"))

    def _containers(self, spec: Node, indexed: bool) -> None:
        host = spec.flag("hostNetwork")
        containers = spec.nodes("containers")
        if len(containers) != 1:
            spec.refuse("containers", f"{len(containers)} containers: Peloton runs one for each pod")
        self.pod.containers.extend(
            container_of(each, host, self._secrets, indexed) for each in containers[:1]
        )

    def _claim(self, spec: Node, claim: str) -> None:
        """Make the mount of the claim the pod's persistent volume."""
        for container in self.pod.containers:
            mounts = [each for each in container.volume_mounts if each.name == claim]
            if len(mounts) > 1 or any(each.read_only for each in mounts):
                path = f"{spec.at('containers')}[0].volumeMounts"
                spec.problems.refuse(path, f"{claim!r} is mounted once, and can be written")
            for each in mounts:
                self.pod.volume.container_path = each.mount_path
                container.volume_mounts.remove(each)

    def _volumes(self, spec: Node) -> None:
        known = set()
        for volume in spec.nodes("volumes"):
            if volume.given("secret"):
                volume.text("name")
                volume.value("secret")
                volume.close(dict.fromkeys(volume.keys(), _VOLUMES))
                continue
            found = self.pod.volumes.add(name=volume.text("name"))
            known.add(found.name)
            if volume.given("emptyDir"):
                _empty_dir(volume.node("emptyDir"), found)
            elif volume.given("hostPath"):
                _host_path(volume.node("hostPath"), found)
            else:
                volume.refuse("emptyDir", f"{_VOLUMES}: Peloton has no others", "FieldValueRequired")
            volume.close(dict.fromkeys(volume.keys(), _VOLUMES))
        for container in self.pod.containers:
            for i, mount in enumerate(container.volume_mounts):
                if mount.name not in known:
                    path = f"{spec.at('containers')}[0].volumeMounts[{i}].name"
                    spec.problems.refuse(path, f"{mount.name!r} is no volume of the pod", "FieldValueInvalid")


def _empty_dir(node: Node, found: Volumes) -> None:
    found.type = Volumes.VOLUME_TYPE_EMPTY_DIR
    node.only("medium", ("",), "it is in the sandbox of the task, on its disk")
    node.close({"sizeLimit": "the limit is that of resources: ephemeral-storage"})


def _host_path(node: Node, found: Volumes) -> None:
    found.type = Volumes.VOLUME_TYPE_HOST_PATH
    found.host_path.path = node.text("path")
    node.only("type", ("",), "Peloton does not look at the path before it is mounted")
    node.close()


def _select_hosts(spec: Node, pod: pod_pb2.PodSpec) -> None:
    """Make constraints of nodeSelector: the host has each label."""
    terms = []
    for key, text in spec.mapping("nodeSelector").items():
        term = pod_pb2.Constraint(type=pod_pb2.Constraint.CONSTRAINT_TYPE_LABEL)
        label = term.label_constraint
        label.kind = pod_pb2.LabelConstraint.LABEL_CONSTRAINT_KIND_HOST
        label.condition = pod_pb2.LabelConstraint.LABEL_CONSTRAINT_CONDITION_GREATER_THAN
        label.label.key, label.label.value = ("hostname" if key == HOSTNAME else key), text
        label.requirement = 0
        terms.append(term)
    if len(terms) == 1:
        pod.constraint.CopyFrom(terms[0])
    elif terms:
        pod.constraint.type = pod_pb2.Constraint.CONSTRAINT_TYPE_AND
        pod.constraint.and_constraint.constraints.extend(terms)


def _check_policy(spec: Node, restart_policies: tuple[str, ...]) -> None:
    """Refuse what a pod of Peloton is not; take what says of it what is so in any case."""
    text = f"{' or '.join(restart_policies)} is what pods of this kind have"
    spec.only("restartPolicy", restart_policies, text)
    spec.only(
        "dnsPolicy", ("ClusterFirst", "ClusterFirstWithHostNet", "Default"), "a task has its host's names"
    )
    spec.only("schedulerName", ("default-scheduler", "peloton"), "Peloton places the pods")
    spec.only("serviceAccountName", ("default",), "tasks have no service account")
    for key in ("automountServiceAccountToken", "enableServiceLinks"):
        spec.only(key, (False,), "there are no service accounts and no services")
    for key in ("hostPID", "hostIPC", "shareProcessNamespace", "setHostnameAsFQDN"):
        spec.only(key, (False,), "Peloton does not share it")
    spec.only("preemptionPolicy", ("PreemptLowerPriority",), "the pool decides on preemption")


def _labels(given: dict[str, str]) -> list[peloton_pb2.Label]:
    return [peloton_pb2.Label(key=key, value=text) for key, text in sorted(given.items())]
