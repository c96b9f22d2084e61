"""Health check of a container: `python -m peloton.daemon.healthcheck [HOST:PORT[/PATH]]`.

Requests /health there, or at $HTTP_PORT of this machine where no address is given. The exit code is 0 for an
answer of 200, 1 for any other and for none; the answer is printed. Where PELOTON_CA_FILE names certificates
of authorities, it is HTTPS.

Uses http.client: a container runs it every few seconds as a process of its own, which takes 0.05 s of CPU so;
the import of httpx2 or requests alone takes 0.1 s more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection

SECONDS = 4.0
"""Time-out of the request."""
LONGEST_ANSWER_BYTES = 4096
"""Bytes of the answer that are printed."""


def main(argv: Sequence[str]) -> int:
    """Run the health check; return the exit code."""
    where = argv[0] if argv else f"127.0.0.1:{os.environ.get('HTTP_PORT', '')}"
    address, _, path = where.partition("/")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        print(f"{where!r} is no HOST:PORT: give one, or set HTTP_PORT", file=sys.stderr)
        return 1
    try:
        status, text = _get(host, int(port), f"/{path or 'health'}")
    except (OSError, HTTPException, OverflowError) as error:
        print(f"{where}: {error or type(error).__name__}", file=sys.stderr)
        return 1
    print(text)
    return 0 if status == 200 else 1


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    connection = _connection(host.strip("[]"), port, os.environ.get("PELOTON_CA_FILE", ""))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(LONGEST_ANSWER_BYTES).decode(errors="replace")
    finally:
        connection.close()


def _connection(host: str, port: int, ca_file: str) -> HTTPConnection:
    if not ca_file:
        return HTTPConnection(host, port, timeout=SECONDS)
    import ssl

    context = ssl.create_default_context(cafile=ca_file)
    return HTTPSConnection(host, port, timeout=SECONDS, context=context)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
