"""Parts of the processes of master and agent: errors of one line, sockets, TLS, ready files."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from peloton.config.config_error import ConfigError
from peloton.config.tls import client_context
from peloton.daemon.log import printable, set_up


class CannotRun(Exception):
    """The process cannot run with these flags; the text is one line: the value, and what would be right."""


def prepare_directory(path: Path, flag: str) -> None:
    """Make a directory and see that it can be written to.

    Raise CannotRun.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CannotRun(
            f"{flag} {path} cannot be written to: {error.strerror}; name a writable directory"
        ) from error


def listen(ip: str, port: int) -> socket.socket:
    """Bind a listening socket.

    Raise CannotRun when the address cannot be had.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((ip, port))
        sock.listen(1024)
    except (OSError, OverflowError) as error:
        sock.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotRun(f"cannot listen on {ip}:{port}: {reason}; use a free port, or 0 for any") from error
    sock.setblocking(False)
    return sock


def server_tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> ssl.SSLContext | None:
    """Return what a server needs for TLS, None without a certificate.

    With ``client_ca`` its clients must show a certificate of that authority.

    Raise CannotRun.
    """
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        raise CannotRun(
            f"--tls-certificate {certificate}, --tls-key {key}: {error}; name PEM files"
        ) from error
    return context


def client_tls(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return what encrypts connections to the master, None without authorities to trust.

    Raise CannotRun.
    """
    if ca is None:
        return None
    try:
        return client_context("--master-ca and what belongs to it", ca, certificate, key)
    except ConfigError as error:
        raise CannotRun(str(error)) from error


def write_ready_file(path: Path | None, content: dict[str, Any]) -> None:
    """Write what others wait for, as a whole."""
    if path is None:
        return
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def machine_figures() -> dict[str, float]:
    """Return the metrics of the machine, by Mesos' names."""
    loads = zip(("1min", "5min", "15min"), os.getloadavg(), strict=True)
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "system/cpus_total": float(os.cpu_count() or 0),
        **{f"system/load_{name}": value for name, value in loads},
        "system/mem_total_bytes": float(page * os.sysconf("SC_PHYS_PAGES")),
        "system/mem_free_bytes": float(page * os.sysconf("SC_AVPHYS_PAGES")),
    }


def tell(name: str, text: str) -> None:
    """Write a line to the log; what others said in it ends no line and steers no terminal."""
    print(printable(f"{name}: {text}"), file=sys.stderr, flush=True)


def run(name: str, main: Coroutine[Any, Any, None]) -> int:
    """Run a process' coroutine, on uvloop where there is one; return the exit code."""
    set_up()
    try:
        _runner()(main)
    except CannotRun as refusal:
        tell(name, str(refusal))
        return 1
    return 0


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run
    return uvloop.run
