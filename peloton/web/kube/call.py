"""One request for objects: who asks, and for what."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from peloton.web.kube.core.values import Object
from peloton.web.kube.reading import Reader
from peloton.web.kube.requests import Target, dry_run
from peloton.web.kube.watching import Collections


@dataclass(frozen=True, slots=True)
class Call:
    """A request, what its path names, and a reader with the rights of its user."""

    request: Request
    reader: Reader
    wanted: Target
    collections: Collections

    @property
    def dry(self) -> bool:
        """Whether nothing is to be done. Raises Refusal for an unknown way of it."""
        return dry_run(self.request)

    def versioned(self, found: Object) -> Object:
        """Return an object with its version."""
        return self.collections.versioned(self.reader, self.wanted.kind, found)
