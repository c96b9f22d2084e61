"""The master's older endpoints: one path each, JSON out (recordings ``11-maintenance``, ``12-operator``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.maintenance import maintenance_pb2 as maintenance_messages
from minicluster.mesos.common.http_messages import JSON, NOT_FOUND, Request, Response, refuse
from minicluster.mesos.common.media_types import method_error
from minicluster.mesos.common.server_process import machine_figures
from minicluster.mesos.master.core import maintenance, metrics, quota, state_json
from minicluster.mesos.master.core.state import Master
from peloton.mesos import json as mesos_json

OK = Response(200)
_PLAIN_FILES = ("browse", "read", "download")
Query = dict[str, str]
_Get = Callable[[Query], Any]
_Post = Callable[[bytes, float], str | None]
"""Takes the body and the time; returns why it is refused, or None."""


class Endpoints:
    """Answers the older endpoints about one cluster."""

    def __init__(self, cluster: Master, flags: dict[str, str], started: float) -> None:
        self._cluster = cluster
        self._started = started
        self._gets: dict[str, _Get] = {
            "/state": lambda query: state_json.state(cluster, flags, started),
            "/state-summary": lambda query: state_json.state_summary(cluster),
            "/slaves": lambda query: state_json.slaves(cluster, query),
            "/frameworks": lambda query: state_json.frameworks(cluster, query),
            "/tasks": lambda query: state_json.tasks(cluster, query),
            "/roles": lambda query: state_json.roles(cluster),
            "/quota": lambda query: mesos_json.to_dict(quota.status(cluster)),
            "/flags": lambda query: {"flags": flags},
            "/maintenance/status": lambda query: mesos_json.to_dict(maintenance.get_status(cluster)),
            "/maintenance/schedule": lambda query: mesos_json.to_dict(maintenance.get_schedule(cluster)),
        }
        self._posts: dict[str, _Post] = {
            "/maintenance/schedule": self._schedule,
            "/machine/down": lambda body, now: maintenance.start(cluster, _machines(body), now),
            "/machine/up": lambda body, now: maintenance.stop(cluster, _machines(body)),
        }

    def serves(self, path: str) -> bool:
        """Return whether a path is one of these."""
        path = path.removesuffix(".json")
        return path in self._gets or path in self._posts

    def reads(self, path: str, request: Request) -> bool:
        """Return whether this only reads: credentials for reading are enough."""
        return path.removesuffix(".json") in self._gets and request.method == "GET"

    def handle(self, path: str, request: Request, now: float) -> Response:
        """Answer a request; who may make it has been checked."""
        path = path.removesuffix(".json")
        post = self._posts.get(path)
        if post is not None and (request.method == "POST" or path not in self._gets):
            wrong_method = method_error(request)
            return wrong_method or _outcome(post, request.body, now)
        wrong_method = method_error(request, "GET") if request.method != "HEAD" else None
        return wrong_method or _shown(self._gets[path], request)

    def _schedule(self, body: bytes, now: float) -> str | None:
        schedule = mesos_json.decode(body, maintenance_messages.Schedule)
        return maintenance.update_schedule(self._cluster, schedule, now)

    def figures(self, now: float, leads: bool) -> dict[str, float]:
        """Return all metrics."""
        return {**metrics.snapshot(self._cluster, self._started, now, leads), **machine_figures()}

    def snapshot(self, request: Request, now: float, leads: bool) -> Response:
        """Answer GET ``/metrics/snapshot``."""
        return _shown(lambda query: self.figures(now, leads), request)


def no_files(action: str, request: Request) -> Response:
    """Answer ``/files/…`` of a master, which has none to show: it keeps no log of its own."""
    if action == "debug":
        return Response(200, b"{}", JSON)
    if action not in _PLAIN_FILES:
        return NOT_FOUND
    if not parse_qs(request.query).get("path"):
        return refuse(400, "Expecting 'path=value' in query.\n")
    return NOT_FOUND if action == "download" else refuse(404, "")


def _shown(get: _Get, request: Request) -> Response:
    query = {name: values[0] for name, values in parse_qs(request.query).items()}
    try:
        body = mesos_json.dumps(get(query))
    except ValueError as error:
        return refuse(400, str(error))
    callback = query.get("jsonp")
    if callback is not None and re.fullmatch(r"[\w.$]{1,100}", callback):
        return Response(200, callback.encode() + b"(" + body + b")", "text/javascript")
    return Response(200, body, JSON)


def _outcome(post: _Post, body: bytes, now: float) -> Response:
    try:
        error = post(body, now)
    except (mesos_json.JsonError, ValueError) as wrong:
        error = str(wrong)
    return OK if error is None else refuse(400, error)


def _machines(body: bytes) -> list[mesos.MachineID]:
    """Read a JSON list of machines. Raise ValueError."""
    found = mesos_json.loads(body)
    if not isinstance(found, list):
        raise ValueError("Failed to parse machines: Expecting a JSON array")
    return [mesos_json.decode(json.dumps(each).encode(), mesos.MachineID) for each in found]
