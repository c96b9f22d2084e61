"""Clusters by name: `clusters.json` says where each one's ZooKeeper is (behaviour 11)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from peloton.errors import NotFound, PelotonError

FILES = (Path("~/.peloton/clusters.json"), Path("/etc/peloton/clusters.json"))


def zookeeper_of(cluster: str, files: tuple[Path, ...] = FILES) -> str:
    """ZooKeeper servers of a cluster. Raises PelotonError where no file names it."""
    known: list[str] = []
    for file in (path.expanduser() for path in files):
        for entry in _clusters(file):
            name, url = entry.get("clusterName"), entry.get("zkURL")
            if name == cluster and isinstance(url, str) and url:
                return url
            known.append(str(name))
    names = ", ".join(known) if known else "none"
    places = " and ".join(str(path) for path in files)
    raise NotFound(f"cluster {cluster!r} is not in {places}; clusters known there: {names}")


def _clusters(file: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise PelotonError(f"{file}: cannot be read as JSON: {error}") from error
    entries = content.get("clusters") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PelotonError(f'{file}: is not {{"clusters": [{{"clusterName": …, "zkURL": …}}]}}')
    return entries
