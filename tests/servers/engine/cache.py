"""What is made once and kept: base images, in the form of a registry, and Docker Compose."""

from __future__ import annotations

from pathlib import Path

from minicluster.servers.maven import cache

PREFIX = "peloton-engine-"
"""What the names of temporary folders of engines begin with."""


def folder() -> Path:
    """Return the folder of it all, which exists."""
    found = cache() / "containers"
    found.mkdir(parents=True, exist_ok=True)
    return found


def registry_folder() -> Path:
    """Return the storage of the registry."""
    return folder() / "registry"
