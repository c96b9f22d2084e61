"""Measure the time until another leader answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import grpc

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.client import Discovery, PelotonClient
from peloton.client.discovery import DiscoveryError, UrlDiscovery
from peloton.private.hostmgr.hostsvc import hostsvc_pb2

PAUSE = 0.01
LONGEST = 60.0
"""Seconds after which a takeover has failed."""
_ROOT = respool_pb2.LookupRequest(path=respool_pb2.ResourcePoolPath(value="/"))
_NOBODY = job_pb2.GetRequest(id=peloton_pb2.JobID(value="00000000-0000-4000-8000-000000000000"))
_CAPACITY = hostsvc_pb2.ClusterCapacityRequest()
QUESTIONS: Mapping[str, Callable[[PelotonClient], bool]] = {
    "jobmgr": lambda client: client.job_svc.Get(_NOBODY, timeout=1).error.HasField("notFound"),
    "resmgr": lambda client: bool(client.respool_svc.LookupResourcePoolID(_ROOT, timeout=1).id.value),
    "hostmgr": lambda client: not client.hostmgr_svc.ClusterCapacity(_CAPACITY, timeout=1).HasField("error"),
}
"""Whether the role's leader gives a good answer to a call that nobody else can answer. Each raises what the
client raises."""


@dataclass(slots=True)
class Takeover:
    """Waits in a thread of its own, from the point it is made, for the first answer of another leader."""

    discovery: Discovery
    role: str
    before: str
    """Address of the leader that goes."""
    new_client: Callable[[str, Discovery], PelotonClient]
    """Makes a client by its name."""
    seconds: float | None = None
    """None until a new leader has answered."""
    _thread: threading.Thread = field(init=False, repr=False)
    _began: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._wait, name=f"takeover-{self.role}", daemon=True)
        self._thread.start()

    def result(self) -> float:
        """Return the seconds until a new leader answered. Raise TimeoutError where none did."""
        self._thread.join(LONGEST + 10)
        if self.seconds is None:
            raise TimeoutError(f"nobody took over from {self.role} {self.before} within {LONGEST:g} s")
        return self.seconds

    def _wait(self) -> None:
        while time.monotonic() < self._began + LONGEST:
            target = self._leader()
            if target and target != self.before and self._answers(target):
                self.seconds = time.monotonic() - self._began
                return
            time.sleep(PAUSE)

    def _leader(self) -> str:
        try:
            return self.discovery.address(self.role)
        except DiscoveryError:
            return ""

    def _answers(self, target: str) -> bool:
        """Asks until it answers or leads no longer."""
        with self.new_client("takeover", UrlDiscovery({self.role: target})) as client:
            while time.monotonic() < self._began + LONGEST:
                with suppress(grpc.RpcError):
                    if QUESTIONS[self.role](client):
                        return True
                if self._leader() != target:
                    return False
                time.sleep(PAUSE)
        return False
