"""Follows the PodGroups of a cluster, where it has this kind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from hostmgr.kubernetes.core.pod_groups import PodGroups, least_of
from hostmgr.kubernetes.core.pods import Key
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import Change, Changed, Replaced

PATH = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
AGAIN_SECONDS = 30.0
"""Until it is looked again whether there is the kind, and the right to read it."""
_FORBIDDEN, _NOT_FOUND = 403, 404
log = logging.getLogger(__name__)


class PodGroupFollower:
    """Tell which PodGroups there are, at each change."""

    def __init__(self, client: ApiClient, enabled: bool, tell: Callable[[PodGroups], None]) -> None:
        """Where this is not `enabled`, there are none."""
        self._client = client
        self._enabled = enabled
        self._tell = tell
        self._least: dict[Key, int] = {}
        self.listed = asyncio.Event()
        """Set once they are known, or it is known that there are none."""

    async def run(self) -> NoReturn:
        """Follow them, once there is the kind. Raises Unavailable."""
        await self._await_kind()
        await follow(self._client, PATH, self._take)

    async def _await_kind(self) -> None:
        while not (self._enabled and await self._there()):
            if not self.listed.is_set():
                self._tell(PodGroups())
                self.listed.set()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _there(self) -> bool:
        """Return whether there is the kind, and it may be read. Raises ApiError, Unavailable."""
        try:
            await self._client.call("GET", PATH, limit=1)
        except ApiError as error:
            if error.status == _FORBIDDEN and not self.listed.is_set():
                log.info("PodGroups are not read: %s", error)
            if error.status in (_FORBIDDEN, _NOT_FOUND):
                return False
            raise
        return True

    def _take(self, change: Change) -> None:
        if isinstance(change, Replaced):
            self._least = dict(map(least_of, change.objects))
        elif isinstance(change, Changed):
            self._least.update([least_of(change.object)])
        else:
            self._least.pop(least_of(change.object)[0], None)
        self._tell(PodGroups(True, dict(self._least)))
        self.listed.set()
