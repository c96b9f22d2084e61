"""What is not built, not served or not done, and what to do in place of it."""

from __future__ import annotations

from collections.abc import Mapping

_PORTS = "ports of a pod are those of its host, which `kubectl get pod -o wide` shows"
NOT_BUILT: Mapping[str, str] = {
    "attach": "what a task prints is in its logs: use `kubectl logs -f`, or `kubectl exec -it`",
    "binding": "Peloton places the pods",
    "ephemeralcontainers": "a pod has one container: use `kubectl exec`",
    "eviction": "use `kubectl delete pod`, or `peloton host maintenance start` for all of a host",
    "portforward": _PORTS,
    "proxy": _PORTS,
    "resize": "a pod keeps its resources: change those of its Deployment",
}
"""What clients ask for that is not built, by the subresource, and what to do in place of it."""
NOT_SERVED: Mapping[str, str] = {
    "configmaps": "there are no ConfigMaps: give variables in env, and what is secret in Secrets",
    "services": f"there are no Services: {_PORTS}",
    "ingresses": "there are no Services",
    "persistentvolumeclaims": "volumes are those of a StatefulSet: `peloton volume list` shows them",
    "persistentvolumes": "volumes are those of a StatefulSet: `peloton volume list` shows them",
    "serviceaccounts": "tasks have no service account",
    "horizontalpodautoscalers": "use `kubectl scale`",
}
"""Kinds that are not served, and what to do in place of them."""
NOT_DONE: Mapping[tuple[str, str], str] = {
    ("pods", "POST"): "a pod is an instance of a job: make a Job or a Deployment, as by `kubectl create job`",
    ("namespaces", "POST"): "a namespace is a pool: `peloton respool create`",
    ("namespaces", "DELETE"): "a namespace is a pool: `peloton respool delete`",
    ("nodes", "PATCH"): "a node is a host: `peloton host maintenance start` drains it",
    ("resourcequotas", "POST"): "each pool has one quota, `pool`: change that",
    ("resourcequotas", "DELETE"): "each pool has one quota, `pool`: change that",
    ("priorityclasses", "POST"): "they are in the settings of jobmgr",
}
"""What is not done with kinds that are served, and what to do in place of it."""
