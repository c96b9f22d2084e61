"""What other distributions add to the client and the command line, found by their entry points.

A program that runs clusters on this machine is above the client, which therefore does not import it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from peloton.errors import NotFound, Refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from peloton.client.auth import Auth
    from peloton.client.tls import Tls
    from peloton.config.agents import AgentAccess

COMMANDS = "peloton.commands"
"""Group of the entry points that are commands of the command line, by name."""
LOCAL_CLUSTERS = "peloton.local_clusters"
"""Group of the entry points that are functions of the environment's variables, which return a LocalCluster
or None."""
ESTIMATES, START = "peloton.estimates", "start"
"""Group and name of the function that estimates when a job starts, by the state of its cluster."""
VARIABLE = "PELOTON_MINICLUSTER_DIR"
"""Variable of the environment that names the folder of a cluster on this machine."""


class Identity(TypedDict, total=False):
    """What a client of a secure cluster shows, as arguments of `PelotonClient`."""

    auth: Auth
    tls: Tls
    agents: AgentAccess


class LocalCluster(Protocol):
    """A cluster that runs on this machine."""

    @property
    def zookeeper(self) -> str:
        """Servers by which its leaders are found; empty where they are found by `membership`."""

    @property
    def membership(self) -> Path:
        """The folder by which its leaders are found."""

    @property
    def notice(self) -> str:
        """What a user should know who did not name the cluster; empty where that is nothing."""

    def identity(self) -> Identity:
        """Return what its administrator shows; nothing where the cluster asks nobody."""
        ...


def find_local_cluster(variables: Mapping[str, str] = os.environ) -> LocalCluster | None:
    """Return the cluster that runs on this machine; None where none does, or where nothing runs any.

    Raises PelotonError, NotFound where VARIABLE names a folder and nothing is installed that runs clusters.
    """
    entries = _entries(LOCAL_CLUSTERS)
    if not entries and variables.get(VARIABLE):
        raise NotFound(
            f"{VARIABLE} names {variables[VARIABLE]}, but no minicluster is installed in this environment: "
            "the distribution `peloton` has it, the client's wheel does not; "
            "install the former, or unset the variable"
        )
    return next(filter(None, (_loaded(entry)(variables) for entry in entries)), None)


def extension(group: str, name: str) -> Any:
    """Return what is registered by a name in a group; None where nothing is. Raises Refused."""
    return next((_loaded(entry) for entry in _entries(group) if entry.name == name), None)


def _entries(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import

    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise Refused(
            f"{entry.value}, the entry point {entry.name!r} of {entry.group}, cannot be loaded: {error}: "
            "install its distribution again"
        ) from None
