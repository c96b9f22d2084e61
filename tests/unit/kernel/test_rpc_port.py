"""Where a daemon listens for calls."""

from __future__ import annotations

import socket

import pytest

from peloton.errors import Unavailable
from peloton.rpc.server import RpcServer


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::1", "::"])
async def test_any_local_address_is_accepted(host: str) -> None:
    server = RpcServer(lambda: "")
    port = await server.start(host, 0)
    there = "::1" if ":" in host else "127.0.0.1"
    socket.create_connection((there, port), timeout=60).close()
    await server.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_port_in_use_is_one_clear_line(host: str, capfd: pytest.CaptureFixture[str]) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    where = f"[{host}]" if ":" in host else host
    with socket.create_server((host, 0), family=family) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable) as caught:
            await RpcServer(lambda: "").start(host, port)
    assert str(caught.value) == f"gRPC port {where}:{port}: Address already in use"
    assert capfd.readouterr().err == ""


async def test_foreign_address_is_one_clear_line() -> None:
    with pytest.raises(Unavailable, match=r"gRPC port 192\.0\.2\.1:0: Cannot assign requested address"):
        await RpcServer(lambda: "").start("192.0.2.1", 0)
