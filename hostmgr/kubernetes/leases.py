"""The leases by which kubelets show that their nodes live (Kubernetes: "Node heartbeats").

Times of other machines are not compared: a lease that has changed since the last read was renewed.
"""

from __future__ import annotations

from peloton.kubernetes.client import ApiClient, ApiError

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SILENT_SECONDS = 40.0
"""After how long without a renewal a node counts as not ready, as in Kubernetes' own controller."""
_NO_RIGHT = 403


class Leases:
    """When each lease was last seen to change."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._seen: dict[str, tuple[str, float]] = {}

    async def silent(self, now: float) -> set[str]:
        """Read the leases; return the nodes whose leases are there and not renewed. Raises Unavailable.

        Without the right to read them there is no such node: its condition counts then.
        """
        try:
            answer = await self._client.call("GET", PATH)
        except ApiError as error:
            if error.status == _NO_RIGHT:
                return set()
            raise
        times = {
            each["metadata"]["name"]: str((each.get("spec") or {}).get("renewTime"))
            for each in answer.get("items") or ()
        }
        before, self._seen = self._seen, {}
        for name, renewed in times.items():
            last = before.get(name)
            self._seen[name] = last if last is not None and last[0] == renewed else (renewed, now)
        return {name for name, (_, since) in self._seen.items() if now - since >= SILENT_SECONDS}
