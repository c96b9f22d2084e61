"""What a cluster consists of and which of it runs, told without its settings.

To read these takes half a second of processor time, for pydantic and the templates of all components. So the
cluster writes what `status` tells into a file beside its record. The file counts for that very record only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minicluster.layout import Layout
from minicluster.processes import load
from peloton import __version__
from peloton.config.private import write_private
from peloton.membership.folder import registered
from peloton.membership.interface import Group, Role

CALLED = (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR)
"""Roles whose addresses clients need where there is no ZooKeeper."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one component.

    `state` is running, stopped (by a command), dead (it ended by itself or was killed), or given: a server
    that is not the cluster's own.
    """

    name: str
    state: str
    pid: int | None
    addresses: dict[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """A component: its name and its addresses, HOST:PORT by protocol."""

    name: str
    kind: str
    addresses: dict[str, str]


@dataclass(frozen=True, slots=True)
class Overview:
    """What is told of a cluster."""

    directory: str
    scheme: str
    """Of the HTTP ports of the daemons and of the web UI."""
    parts: tuple[Part, ...]
    """In the order of starting."""
    given: dict[str, dict[str, str]]
    """Addresses of servers that are not the cluster's own, by kind and protocol."""
    exports: dict[str, str]
    """Environment variables with which the CLI finds it, without the addresses of leaders."""
    by_folder: bool
    """Whether daemons find each other by a folder, so that the CLI needs addresses of leaders."""

    @property
    def layout(self) -> Layout:
        """The files of the cluster."""
        return Layout(Path(self.directory))

    def statuses(self) -> list[Status]:
        """Return the state of each component, those that are given first."""
        given = [Status(name, "given", None, addresses) for name, addresses in self.given.items()]
        return [*given, *(self._status(part) for part in self.parts)]

    def urls(self) -> dict[str, str]:
        """Return the environment variables with which the CLI finds it: ZooKeeper, or the present leaders."""
        found = dict(self.exports)
        leaders = registered(self.layout.membership).leaders if self.by_folder else {}
        for role in CALLED if self.by_folder else ():
            first = next(part for part in self.parts if part.kind == role.value)
            leader = leaders.get(Group(role))
            found[f"{role.value.upper()}_URL"] = leader.target if leader else first.addresses["grpc"]
        return found

    def web_addresses(self, kind: str = "web") -> list[str]:
        """Return where the web UI answers, HOST:PORT."""
        web = [part for part in self.parts if part.kind == kind]
        return [part.addresses["http"] for part in web if self._status(part).state == "running"]

    def _status(self, part: Part) -> Status:
        return status_of(self.layout, part.name, part.addresses)


def status_of(layout: Layout, name: str, addresses: Mapping[str, str]) -> Status:
    """Return the state of a component."""
    process = load(layout.run_of(name))
    if process is None:
        return Status(name, "stopped", None, dict(addresses))
    alive = process.alive()
    return Status(name, "running" if alive else "dead", process.pid if alive else None, dict(addresses))


def plain(statuses: Sequence[Status], exports: Mapping[str, str]) -> dict[str, Any]:
    """Return the states and the exports as data."""
    return {"components": [asdict(each) for each in statuses], "exports": dict(exports)}


def as_json(content: Mapping[str, Any]) -> str:
    """Return data as `status --json` prints it."""
    return json.dumps(content, indent=2)


def as_yaml(content: Mapping[str, Any]) -> str:
    """Return data as `status -o yaml` prints it."""
    import yaml

    return str(yaml.safe_dump(dict(content), sort_keys=False)).rstrip("\n")


def write_overview(overview: Overview) -> None:
    """Write it beside the record that it describes."""
    layout = overview.layout
    held = {"version": __version__, "record": _digest(layout), **asdict(overview)}
    draft = layout.overview.with_name(f".{layout.overview.name}")
    write_private(draft, json.dumps(held))
    draft.rename(layout.overview)


def read_overview(layout: Layout) -> Overview | None:
    """Read it; return None where there is none for the present record, this folder and this program."""
    try:
        held = json.loads(layout.overview.read_text())
        if (held.pop("version"), held.pop("record")) != (__version__, _digest(layout)):
            return None
        overview = Overview(**{**held, "parts": tuple(Part(**each) for each in held["parts"])})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return overview if overview.directory == str(layout.root) else None


def _digest(layout: Layout) -> str:
    return hashlib.sha256(layout.record.read_bytes()).hexdigest()
