"""Requests that are split by the clusters of their hosts, and answers whose lists are joined."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from google.protobuf.message import Message

from peloton.model.cluster import cluster_of

M = TypeVar("M", bound=Message)
NameOf = Callable[[Any], str]
"""Returns the hostname of an item of a list."""


def joined(answers: Iterable[M]) -> M:
    """Return the first answer with the lists of the others behind its own. There must be one."""
    found = iter(answers)
    first = next(found)
    whole = type(first)()
    whole.MergeFrom(first)
    for answer in found:
        whole.MergeFrom(answer)
    return whole


def copied(message: M) -> M:
    """Return a copy."""
    whole = type(message)()
    whole.CopyFrom(message)
    return whole


def split_by_host(request: M, field: str, name_of: NameOf, clusters: Collection[str]) -> dict[str, M]:
    """Return the part of a request for each of the clusters, by the hosts of a list."""
    parts: dict[str, M] = {}
    for item in getattr(request, field):
        cluster = cluster_of(name_of(item))
        if cluster not in clusters:
            continue
        part = parts.get(cluster)
        if part is None:
            part = parts[cluster] = copied(request)
            part.ClearField(field)
        getattr(part, field).append(item)
    return parts
