"""Clusters by name: `clusters.json` says where each one's ZooKeeper is (docs/behaviour/command-line.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peloton.client.matching import suggestion
from peloton.errors import NotFound, PelotonError
from peloton.plainjson import parse_json

FILES = (Path("~/.peloton/clusters.json"), Path("/etc/peloton/clusters.json"))


def zookeeper_of(cluster: str, files: tuple[Path, ...] = FILES) -> str:
    """Return the ZooKeeper servers of a cluster; the first file that names it counts.

    Raises NotFound where no file names it, PelotonError for a file in another form.
    """
    known: list[str] = []
    for file in (path.expanduser() for path in files):
        for name, url in _clusters(file):
            if name == cluster:
                return url
            known.append(name)
    places = " and ".join(str(path) for path in files)
    names = ", ".join(known) if known else "none"
    raise NotFound(
        f"cluster {cluster!r} is not in {places}; clusters known there: {names}{suggestion(cluster, known)}"
    )


def _clusters(file: Path) -> Iterator[tuple[str, str]]:
    """Yield name and ZooKeeper servers of each cluster of a file."""
    try:
        content = parse_json(file.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise PelotonError(f"{file}: cannot be read as JSON: {error}") from error
    entries = content.get("clusters") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise PelotonError(f'{file}: is not {{"clusters": [{{"clusterName": …, "zkURL": …}}]}}')
    for number, entry in enumerate(entries):
        yield (
            _text(file, number, entry, "clusterName", "prod"),
            _text(file, number, entry, "zkURL", "zk1:2181"),
        )


def _text(file: Path, number: int, entry: dict[str, Any], key: str, example: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise PelotonError(f"{file}: clusters[{number}].{key}: {value!r} is not text such as {example!r}")
    return value
