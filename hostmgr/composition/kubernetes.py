"""The backend for Kubernetes, with its access to the API server."""

from __future__ import annotations

from hostmgr.config import HostmgrSettings, KubernetesSettings
from hostmgr.kubernetes.backend import KubernetesBackend
from hostmgr.kubernetes.core.cluster import ClusterRules
from hostmgr.kubernetes.core.foreign import ForeignRules
from hostmgr.kubernetes.core.nodes import parse_toleration
from hostmgr.kubernetes.manifest import PodRules
from hostmgr.kubernetes.sandboxes.serving import NOT_SERVED, SandboxRules
from peloton.config.errors import ConfigError
from peloton.daemon.lifecycle import Daemon
from peloton.identity.agents import agent_access
from peloton.kubernetes.access import Access, from_kubeconfig, in_cluster
from peloton.kubernetes.client import ApiClient
from peloton.rpc.tls import Tls

FOLLOWERS = 5
"""Connections beside those that create and delete pods: three watches, leases and reads."""


def access_of(settings: KubernetesSettings) -> Access:
    """Read the kubeconfig, or the pod's service account. Raises ConfigError."""
    access = from_kubeconfig(settings.kubeconfig, settings.context) if settings.kubeconfig else in_cluster()
    if not (settings.namespace or access.namespace):
        raise ConfigError("kubernetes.namespace: give the namespace of the tasks: the kubeconfig names none")
    return access


def kubernetes_backend(
    daemon: Daemon[HostmgrSettings], framework_id: str, access: Access
) -> KubernetesBackend:
    """Return the backend. `framework_id` is the uid of the namespace that is known; empty: none is."""
    settings = daemon.settings.kubernetes
    assert settings is not None, "this is the backend for clusters of Kubernetes"
    namespace = settings.namespace or access.namespace
    tolerations = tuple(map(parse_toleration, settings.tolerations))
    rules = ClusterRules(namespace, tolerations, settings.ports, settings.lost_after, settings.keep_finished)
    pods = PodRules(
        namespace,
        settings.default_image,
        tolerations,
        settings.longest_grace,
        settings.cpu_limits,
        settings.pod_template,
        settings.job_template_fields,
        settings.storage_class,
    )
    client = ApiClient(access, settings.concurrency + FOLLOWERS, settings.timeout)
    return KubernetesBackend(
        client,
        settings.cluster,
        framework_id,
        rules,
        pods,
        daemon.clock,
        settings.concurrency,
        daemon.fence,
        sandboxes_of(daemon.settings, daemon.servers.tls),
        ForeignRules(settings.foreign_pods.enabled, settings.foreign_pods.namespaces, settings.cluster),
    )


def sandboxes_of(settings: HostmgrSettings, tls: Tls | None) -> SandboxRules:
    """Return where sandboxes are served, and to whom. Raises ConfigError."""
    assert settings.kubernetes is not None
    given = settings.kubernetes.sandboxes
    if not given.port:
        return NOT_SERVED
    if settings.agents.tls and tls is None:
        raise ConfigError("agents.tls: tls.certificate_file is missing, by which sandboxes are served")
    context = tls.http() if settings.agents.tls and tls is not None else None
    advertised = given.advertise or given.host
    return SandboxRules(given.host, given.port, advertised, agent_access(settings.agents), context)
