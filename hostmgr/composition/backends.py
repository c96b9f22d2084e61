"""The backend that the settings choose: Mesos, or Kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from hostmgr.backend.interface import Backend
from hostmgr.composition import mesos
from hostmgr.config import HostmgrSettings
from peloton.daemon.lifecycle import Daemon
from peloton.mesos.detector import detecting

if TYPE_CHECKING:
    from peloton.kubernetes.access import Access as ApiAccess

Access: TypeAlias = "mesos.Access | ApiAccess"


def access_of(settings: HostmgrSettings) -> Access:
    """Read the files that the settings name. Raises ConfigError where one cannot be used."""
    if settings.kubernetes is not None:
        from hostmgr.composition import kubernetes  # large, and most clusters are of Mesos

        return kubernetes.access_of(settings.kubernetes)
    return mesos.access_of(settings.mesos)


@asynccontextmanager
async def connecting(
    daemon: Daemon[HostmgrSettings], access: Access
) -> AsyncIterator[Callable[[str], Backend]]:
    """Give what makes the backend for a framework id; without an id it connects as a new framework."""
    if isinstance(access, mesos.Access):
        async with detecting(daemon.settings.mesos.master) as detector:
            yield lambda framework_id: mesos.mesos_backend(daemon, framework_id, detector, access)
    else:
        from hostmgr.composition import kubernetes

        yield lambda framework_id: kubernetes.kubernetes_backend(daemon, framework_id, access)
