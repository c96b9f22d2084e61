"""Trials of pods: the API server is asked what it would say to one, and makes none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.manifest import PodRules, trial_manifest
from peloton.kubernetes.client import ApiClient, ApiError

AGAIN_SECONDS = 30.0
"""Between two trials of a template that was refused: what it names may be made meanwhile."""
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
_NOT_OF_THE_POD = ("exceeded quota", "failed quota", "does not support dry run")
"""What is said when all the rest is in order: quotas are checked last. A webhook may forbid dry runs."""
log = logging.getLogger(__name__)


async def tried(client: ApiClient, namespace: str, pod: dict[str, Any]) -> str:
    """Return why the API server would refuse a pod; empty where it would not. Raises Unavailable."""
    try:
        await client.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod, **STRICT)
    except ApiError as error:
        return "" if any(each in str(error) for each in _NOT_OF_THE_POD) else str(error)
    return ""


class TemplateTrial:
    """Tries the site's pod template. While it is refused, no node is offered: each launch would fail."""

    def __init__(
        self, client: ApiClient, core: KubernetesCluster, rules: PodRules, wake: Callable[[], None]
    ) -> None:
        """Call `wake` when the core has learnt something."""
        self._client = client
        self._core = core
        self._rules = rules
        self._wake = wake
        self.refusal = ""
        """Why the template is refused; empty where it is not."""

    async def once(self) -> None:
        """Try the template. Raises Unavailable."""
        if not self._rules.template:
            return
        refusal = await tried(self._client, self._rules.namespace, trial_manifest(self._rules))
        if refusal and refusal != self.refusal:
            log.error("kubernetes.pod_template is refused, and nothing is launched: %s", refusal)
        self.refusal = refusal
        self._core.hold_back(bool(refusal))
        self._wake()

    async def run(self) -> NoReturn:
        """Try a template again that was refused. Raises Unavailable."""
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            if self.refusal:
                await self.once()
