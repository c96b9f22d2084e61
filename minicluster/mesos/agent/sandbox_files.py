"""Files of sandboxes and nothing else: ``/files/browse`` and its like, LIST_FILES and READ_FILE.

Source: recording ``13-agent-sandbox``.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.agent import agent_pb2 as agent
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.common.http_messages import JSON, NOT_FOUND, Request, Response, refuse
from minicluster.mesos.common.real_files import open_real
from peloton.mesos.json import dumps

MAX_READ_BYTES = 16 * os.sysconf("SC_PAGE_SIZE")
"""Most bytes of one read: 16 pages, as in Mesos."""

_MISSING = refuse(404, "")
_NO_PATH = refuse(400, "Expecting 'path=value' in query.\n")
_VIRTUAL = re.compile(r"/frameworks/([^/]+)/executors/([^/]+)/runs/([^/]+)(/.*)?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
T = TypeVar("T")


class Files:
    """Serves the sandboxes of one agent."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        real = re.escape(str(layout.slaves))
        runs = r"/[^/]+/frameworks/[^/]+/executors/[^/]+/runs/[^/]+"
        self._real = re.compile(rf"({real}{runs})(/.*)?")
        self.agent_id = ""

    def handle(self, action: str, request: Request) -> Response:
        """Answer one request; ``action`` is what follows ``/files/``."""
        query = {name: values[0] for name, values in parse_qs(request.query).items()}
        path = query.get("path")
        if action == "debug":
            return Response(200, dumps(self._names()), JSON)
        if action not in ("browse", "read", "download"):
            return NOT_FOUND
        if not path:
            return _NO_PATH
        found = self._find(path)
        if found is None:
            return NOT_FOUND if action == "download" else _MISSING
        if isinstance(found, Response):
            return found
        if action == "browse":
            return _with_jsonp(_browse(found, path), query.get("jsonp"))
        if action == "read":
            return _with_jsonp(_read(found, query), query.get("jsonp"))
        return _download(found)

    # --- LIST_FILES and READ_FILE of /api/v1 ---

    def list_files(self, path: str) -> agent.Response.ListFiles | Response:
        """Return what is in a directory, or the refusal."""
        found = self._find(path)
        if not isinstance(found, Path):
            return found or _MISSING
        return agent.Response.ListFiles(file_infos=_entries(found, path, _file_info))

    def read_file(self, call: agent.Call.ReadFile) -> agent.Response.ReadFile | Response:
        """Return a part of a file, or the refusal."""
        found = self._find(call.path)
        if not isinstance(found, Path):
            return found or _MISSING
        if found.is_dir():
            return refuse(400, "Cannot read a directory.\n")
        wanted = min(call.length, MAX_READ_BYTES) if call.HasField("length") else MAX_READ_BYTES
        try:
            data = _part(found, call.offset, wanted)
            return agent.Response.ReadFile(size=found.stat().st_size, data=data)
        except OSError:
            return _MISSING

    def _names(self) -> dict[str, str]:
        """Return the paths under which each sandbox can be requested, and where it is."""
        out: dict[str, str] = {}
        pattern = f"{self.agent_id}/frameworks/*/executors/*/runs/*"
        for sandbox in sorted(self._layout.slaves.glob(pattern)) if self.agent_id else ():
            target = str(sandbox.resolve())
            out[str(sandbox)] = target
            if sandbox.name == "latest":
                out["/" + str(sandbox.relative_to(self._layout.slaves / self.agent_id))] = target
        return out

    def _find(self, path: str) -> Path | Response | None:
        """Return the file that a path names, None for what is missing or no sandbox's."""
        root, rest = self._root(path)
        if root is None:
            return None
        real = root + rest
        if ".." in rest.split("/"):
            return refuse(400, f"'{real}' is inaccessible.\n")
        try:
            target = Path(real).resolve(strict=True)
            sandbox = Path(root).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            return None
        inside = target == sandbox or sandbox in target.parents
        return target if inside and self._layout.slaves.resolve() in sandbox.parents else None

    def _root(self, path: str) -> tuple[str | None, str]:
        virtual = _VIRTUAL.fullmatch(path)
        if virtual is not None:
            framework, executor, run, rest = virtual.groups()
            if {framework, executor, run} & {".", ".."}:
                return None, ""
            runs = self._layout.executor(self.agent_id, framework, executor)
            return str(runs / run), rest or ""
        real = self._real.fullmatch(path)
        if real is None or set(real[1].split("/")) & {".", ".."}:
            return None, ""
        return real[1], real[2] or ""


def _name(number: int, users: bool) -> str:
    try:
        return pwd.getpwuid(number).pw_name if users else grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def describe(path: Path, shown: str) -> dict[str, object]:
    """Return what browsing shows of one file."""
    info = path.lstat()
    return {
        "gid": _name(info.st_gid, False),
        "mode": stat.filemode(info.st_mode),
        "mtime": float(int(info.st_mtime)),
        "nlink": info.st_nlink,
        "path": shown,
        "size": info.st_size,
        "uid": _name(info.st_uid, True),
    }


def _file_info(path: Path, shown: str) -> mesos.FileInfo:
    info = path.lstat()
    return mesos.FileInfo(
        path=shown,
        nlink=info.st_nlink,
        size=info.st_size,
        mtime=mesos.TimeInfo(nanoseconds=int(info.st_mtime) * 10**9),
        mode=info.st_mode,
        uid=_name(info.st_uid, True),
        gid=_name(info.st_gid, False),
    )


def _entries(found: Path, path: str, told: Callable[[Path, str], T]) -> list[T]:
    """Return what is told of each file in a directory; nothing where it is none."""
    entries = []
    for entry in sorted(found.iterdir()) if found.is_dir() else ():
        try:
            entries.append(told(entry, f"{path.rstrip('/')}/{entry.name}"))
        except FileNotFoundError:
            continue  # gone between listing and looking
    return entries


def _browse(found: Path, path: str) -> Response:
    body = b"[" + b",".join(map(dumps, _entries(found, path, describe))) + b"]"
    return Response(200, body, JSON)


def _part(found: Path, offset: int, length: int) -> bytes:
    """Return a part of a file. Raises OSError where it is not there any more."""
    with open_real(found) as file:
        if offset >= os.fstat(file.fileno()).st_size:  # seeking may not go so far
            return b""
        file.seek(offset)
        return file.read(length)


def _number(query: dict[str, str], name: str) -> int | Response | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return refuse(400, f"Failed to parse {name}: Failed to convert '{text}' to number.\n")


def _quoted(data: bytes) -> bytes:
    """Write bytes as a JSON string, those that are no UTF-8 raw, as Mesos does."""
    text = data.decode("utf-8", "surrogateescape")
    out = (
        _ESCAPES.get(char) or (f"\\u{ord(char):04x}" if char < " " or char == "\x7f" else char)
        for char in text
    )
    return b'"' + "".join(out).encode("utf-8", "surrogateescape") + b'"'


def _read(found: Path, query: dict[str, str]) -> Response:
    offset, length = _number(query, "offset"), _number(query, "length")
    if isinstance(offset, Response):
        return offset
    if isinstance(length, Response):
        return length
    if offset is not None and offset < -1:
        return refuse(400, f"Negative offset provided: {offset}.\n")
    if length is not None and length < -1:
        return refuse(400, f"Negative length provided: {length}.\n")
    if found.is_dir():
        return refuse(400, "Cannot read a directory.\n")
    size = found.stat().st_size
    if offset is None or offset == -1:
        return Response(200, b'{"data":"","offset":%d}' % size, JSON)
    wanted = MAX_READ_BYTES if length is None or length == -1 else min(length, MAX_READ_BYTES)
    try:
        data = _part(found, offset, wanted)
    except OSError:
        return _MISSING
    return Response(200, b'{"data":%b,"offset":%d}' % (_quoted(data), offset), JSON)


def _with_jsonp(response: Response, callback: str | None) -> Response:
    if callback is None or response.status != 200 or not re.fullmatch(r"[\w.$]{1,100}", callback):
        return response
    return Response(200, callback.encode() + b"(" + response.body + b")", "text/javascript")


def _download(found: Path) -> Response:
    if found.is_dir():
        return refuse(400, "Cannot download a directory.\n")
    if not found.is_file():
        return NOT_FOUND
    name = re.sub(r"[^\w.+@%-]", "_", found.name)
    disposition = ("Content-Disposition", f"attachment; filename={name}")
    return Response(200, b"", "application/octet-stream", (disposition,), file=(found, found.stat().st_size))
