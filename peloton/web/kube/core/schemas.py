"""Schemas of the kinds: the fields that are kept, with what they mean.

A type is `string`, `integer`, `boolean`, `any`, `quantity` or the name of another schema; `[T]` is a list of
it, `{T}` an object whose values are of it.
"""

from __future__ import annotations

from collections.abc import Mapping

Fields = Mapping[str, tuple[str, str]]
"""Type and description by the name of the field."""
META = "ObjectMeta"
_LABELS = ("{string}", "Keys and values by which objects are selected.")
SCHEMAS: Mapping[str, Fields] = {
    META: {
        "name": ("string", "Name, unique among the objects of its kind in the namespace."),
        "namespace": ("string", "Namespace, which is a pool of Peloton."),
        "labels": _LABELS,
        "annotations": ("{string}", "Keys and values that clients keep with the object."),
        "uid": ("string", "Id in Peloton."),
        "resourceVersion": ("string", "Version of the object."),
        "generation": ("integer", "Version of its specification."),
        "creationTimestamp": ("string", "When it was created."),
        "deletionTimestamp": ("string", "Since when it is being deleted."),
        "ownerReferences": ("[any]", "The object that this one is part of."),
    },
    "Condition": {
        "type": ("string", "Type of the condition."),
        "status": ("string", "True, False or Unknown."),
        "reason": ("string", "Why, in one word."),
        "message": ("string", "Why, for people."),
        "lastTransitionTime": ("string", "When it changed."),
    },
    "LabelSelector": {"matchLabels": _LABELS},
    "EnvVar": {
        "name": ("string", "Name of the variable."),
        "value": ("string", "Value; $(NAME) stands for an earlier variable."),
    },
    "ContainerPort": {
        "name": ("string", "Name of the port."),
        "containerPort": ("integer", "Port on which the container listens."),
        "hostPort": ("integer", "Port of the host; the same."),
        "protocol": ("string", "TCP or UDP."),
    },
    "VolumeMount": {
        "name": ("string", "Name of a volume of the pod."),
        "mountPath": ("string", "Path in the container."),
        "readOnly": ("boolean", "Whether it cannot be written."),
    },
    "ResourceRequirements": {
        "requests": (
            "{quantity}",
            "What the container asks for: cpu, memory, ephemeral-storage, nvidia.com/gpu.",
        ),
        "limits": ("{quantity}", "What it may have; the same as what it asks for."),
    },
    "ExecAction": {"command": ("[string]", "Program and arguments; exit code 0 is healthy.")},
    "HTTPGetAction": {
        "path": ("string", "Path of the request."),
        "port": ("any", "Number or name of the port."),
        "scheme": ("string", "HTTP or HTTPS."),
    },
    "Probe": {
        "exec": ("ExecAction", "Check by a command."),
        "httpGet": ("HTTPGetAction", "Check by a request."),
        "initialDelaySeconds": ("integer", "Seconds before the first check."),
        "periodSeconds": ("integer", "Seconds between checks."),
        "timeoutSeconds": ("integer", "Seconds after which a check has failed."),
        "failureThreshold": ("integer", "Failures in a row after which the container is ended."),
        "successThreshold": ("integer", "1."),
    },
    "Container": {
        "name": ("string", "Name of the container."),
        "image": ("string", "Image; without it the command is a plain process of its agent."),
        "imagePullPolicy": ("string", "IfNotPresent or Always."),
        "command": ("[string]", "Program and arguments. Peloton needs it."),
        "args": ("[string]", "Further arguments."),
        "env": ("[EnvVar]", "Environment variables."),
        "ports": ("[ContainerPort]", "Ports of the host that the container listens on."),
        "resources": ("ResourceRequirements", "CPU, memory, disk and GPUs."),
        "volumeMounts": ("[VolumeMount]", "Volumes of the pod in the container."),
        "livenessProbe": ("Probe", "Health check; not for Jobs."),
        "terminationMessagePath": ("string", "Not used."),
        "terminationMessagePolicy": ("string", "Not used."),
        "stdin": ("boolean", "false."),
        "stdinOnce": ("boolean", "false."),
        "tty": ("boolean", "false."),
    },
    "EmptyDirVolumeSource": {"medium": ("string", "Empty: the disk.")},
    "HostPathVolumeSource": {
        "path": ("string", "Path on the host."),
        "type": ("string", "Empty: it is not looked at before."),
    },
    "Volume": {
        "name": ("string", "Name of the volume."),
        "emptyDir": ("EmptyDirVolumeSource", "An empty directory in the sandbox of the task."),
        "hostPath": ("HostPathVolumeSource", "A directory or file of the host."),
    },
    "PodSpec": {
        "containers": ("[Container]", "The container: Peloton runs one."),
        "volumes": ("[Volume]", "Volumes that the container may mount."),
        "nodeSelector": ("{string}", "Labels that the host must have."),
        "restartPolicy": ("string", "Never or OnFailure for Jobs, Always for Deployments."),
        "terminationGracePeriodSeconds": ("integer", "Seconds between the polite and the hard kill."),
        "activeDeadlineSeconds": ("integer", "Seconds that a pod of a Job may run."),
        "priorityClassName": ("string", "A priority class of the cluster."),
        "hostNetwork": ("boolean", "Ports are those of the host, as they are in any case."),
        "hostPID": ("boolean", "false."),
        "hostIPC": ("boolean", "false."),
        "dnsPolicy": ("string", "Not used."),
        "schedulerName": ("string", "peloton or default-scheduler."),
        "serviceAccountName": ("string", "default: there are none."),
        "automountServiceAccountToken": ("boolean", "false."),
        "enableServiceLinks": ("boolean", "false."),
        "nodeName": ("string", "The host; filled in."),
    },
    "PodTemplateSpec": {
        "metadata": (META, "Labels and annotations of the pods."),
        "spec": ("PodSpec", "What the pods run."),
    },
    "JobSpec": {
        "completions": ("integer", "How many pods are to succeed."),
        "parallelism": ("integer", "How many of them run at a time."),
        "completionMode": (
            "string",
            "NonIndexed, or Indexed: JOB_COMPLETION_INDEX has the number of the pod.",
        ),
        "backoffLimit": ("integer", "How often a pod may fail and run again."),
        "backoffLimitPerIndex": ("integer", "The same."),
        "activeDeadlineSeconds": ("integer", "Seconds that each pod may run, where all run at once."),
        "suspend": ("boolean", "false."),
        "podReplacementPolicy": ("string", "Not used."),
        "selector": ("LabelSelector", "Filled in."),
        "template": ("PodTemplateSpec", "The pods."),
    },
    "JobStatus": {
        "active": ("integer", "Pods that have not ended."),
        "ready": ("integer", "Pods that run."),
        "succeeded": ("integer", "Pods that have succeeded."),
        "failed": ("integer", "Pods that have failed."),
        "startTime": ("string", "When the first pod began to run."),
        "completionTime": ("string", "When the last one succeeded."),
        "completedIndexes": ("string", "Indexes that have succeeded."),
        "conditions": ("[Condition]", "Complete or Failed."),
    },
    "RollingUpdateDeployment": {
        "maxUnavailable": ("any", "How many pods, or percent, an update replaces at a time. 25%."),
        "maxSurge": ("any", "0: pods are replaced."),
    },
    "DeploymentStrategy": {
        "type": ("string", "RollingUpdate or Recreate."),
        "rollingUpdate": ("RollingUpdateDeployment", "How pods are replaced."),
    },
    "DeploymentSpec": {
        "replicas": ("integer", "How many pods run."),
        "selector": ("LabelSelector", "Labels of the pods, as the template has them."),
        "template": ("PodTemplateSpec", "The pods."),
        "strategy": ("DeploymentStrategy", "How an update goes about it."),
        "paused": ("boolean", "Whether updates wait."),
        "minReadySeconds": ("integer", "0."),
        "progressDeadlineSeconds": ("integer", "600."),
        "revisionHistoryLimit": ("integer", "Not used."),
    },
    "DeploymentStatus": {
        "observedGeneration": ("integer", "The generation of which this is the status."),
        "replicas": ("integer", "Pods."),
        "updatedReplicas": ("integer", "Pods of the newest template."),
        "readyReplicas": ("integer", "Pods that run and are healthy."),
        "availableReplicas": ("integer", "The same."),
        "unavailableReplicas": ("integer", "Pods that are missing."),
        "conditions": ("[Condition]", "Available and Progressing."),
    },
    "ScaleSpec": {"replicas": ("integer", "How many pods run.")},
    "ScaleStatus": {
        "replicas": ("integer", "Pods that are there."),
        "selector": ("string", "By which they are found."),
    },
    "PodStatus": {
        "phase": ("string", "Pending, Running, Succeeded or Failed."),
        "conditions": ("[Condition]", "PodScheduled, Initialized, ContainersReady and Ready."),
        "containerStatuses": ("[any]", "State of the container."),
        "startTime": ("string", "When it began to run."),
        "reason": ("string", "Why it is so, in one word."),
        "message": ("string", "Why it is so, for people."),
        "qosClass": ("string", "Guaranteed."),
    },
    "NamespaceStatus": {"phase": ("string", "Active.")},
    "NodeSpec": {"unschedulable": ("boolean", "Whether the host takes no tasks, for maintenance.")},
    "NodeStatus": {
        "capacity": ("{quantity}", "Resources of the host."),
        "allocatable": ("{quantity}", "The same."),
        "conditions": ("[Condition]", "Ready."),
        "addresses": ("[any]", "Its name."),
        "nodeInfo": ("any", "Version."),
    },
}
KIND_FIELDS: Mapping[str, Fields] = {
    "Job": {"spec": ("JobSpec", "What is to run."), "status": ("JobStatus", "How far it is.")},
    "Deployment": {
        "spec": ("DeploymentSpec", "What is to run."),
        "status": ("DeploymentStatus", "How far it is."),
    },
    "Pod": {"spec": ("PodSpec", "What runs."), "status": ("PodStatus", "How far it is.")},
    "Namespace": {"status": ("NamespaceStatus", "That it is there.")},
    "Node": {"spec": ("NodeSpec", "What is wanted of it."), "status": ("NodeStatus", "What it has.")},
    "Scale": {"spec": ("ScaleSpec", "What is wanted."), "status": ("ScaleStatus", "What there is.")},
    "Event": {
        "involvedObject": ("any", "The pod."),
        "reason": ("string", "What happened, in one word."),
        "message": ("string", "What happened, for people."),
        "type": ("string", "Normal or Warning."),
        "source": ("any", "Peloton, and the host."),
        "firstTimestamp": ("string", "When."),
        "lastTimestamp": ("string", "When."),
        "count": ("integer", "1."),
    },
}
DESCRIPTIONS: Mapping[str, str] = {
    "Job": "A batch job: pods that run to their end.",
    "Deployment": "A service: pods that run until it is deleted, and are updated in batches.",
    "Pod": "The present run of an instance of a job.",
    "Namespace": "A pool of Peloton that takes jobs.",
    "Node": "A host.",
    "Event": "What happened to a pod.",
    "Scale": "How many pods a Deployment has.",
}
