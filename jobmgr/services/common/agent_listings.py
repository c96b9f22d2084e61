"""What the JSON of an agent's HTTP server says of the files of a run."""

from __future__ import annotations

from typing import Any

from peloton.errors import Unavailable
from peloton.model.ids import CUSTOM_EXECUTOR_PREFIX, MesosTaskId
from peloton.plainjson import parse_json

MAX_FRAMEWORKS = 10
"""Frameworks whose paths are tried for an executor that the agent no longer lists."""


def directories(state: Any, run: MesosTaskId, agent_id: str, address: str) -> list[str]:
    """Return the directories where the files of a run may be, the most likely first.

    That is the one in the agent's `/state`. An agent forgets old executors before it removes their files, so
    that they may also be below each of its frameworks, by the virtual path or the real one. Raises
    Unavailable where the state has an unknown form.
    """
    executors = (run, CUSTOM_EXECUTOR_PREFIX + run)
    try:
        frameworks = _held(state, "frameworks")
        listed = [
            executor["directory"]
            for framework in frameworks
            for executor in _held(framework, "executors")
            if executor["id"] in executors
        ]
        ids = [framework["id"] for framework in frameworks[:MAX_FRAMEWORKS]]
        work = state.get("flags", {}).get("work_dir", "")
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"agent {address} has a state of unknown form: {error!r}") from None
    roots = ["", f"{work}/slaves/{agent_id}"] if work else [""]
    return listed + [
        f"{root}/frameworks/{framework}/executors/{executor}/runs/latest"
        for root in roots
        for framework in ids
        for executor in executors
    ]


def files(listing: Any, address: str) -> tuple[str, ...]:
    """Return the paths of files. Raises Unavailable where the listing has an unknown form."""
    try:
        return tuple(str(entry["path"]) for entry in listing if not entry["mode"].startswith("d"))
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"agent {address} has a listing of unknown form: {error!r}") from None


def file_data(body: bytes, address: str) -> bytes:
    """Return the data in an answer of `/files/read`, byte for byte. Raises Unavailable for another answer.

    Agents put bytes that are not UTF-8 raw into their JSON.
    """
    try:
        held: Any = parse_json(body.decode("utf-8", "surrogateescape"), strict=False)
        return str(held["data"]).encode("utf-8", "surrogateescape")
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"agent {address} gave no data of a file") from None


def _held(parent: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the active ones, then those that have ended."""
    return [*parent.get(kind, ()), *parent.get(f"completed_{kind}", ())]
