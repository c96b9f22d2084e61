"""What a cluster shows to programs: the JSON door as its documentation has it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.applications import Starlette

from peloton.client import LocalDiscovery
from peloton.web.api.caller import LeaderCaller
from peloton.web.api.door import Door

from .conftest import Harness, wait_for

ROOT = Path(__file__).resolve().parents[2]
DOOR = ROOT / "docs" / "json-door.md"


@pytest.fixture(scope="module")
def door(harness: Harness) -> Iterator[str]:
    """The address of the JSON door."""
    caller = LeaderCaller(LocalDiscovery(harness.cluster.layout.membership))
    app = Starlette(routes=Door(caller).routes())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    wait_for(lambda: server.started, 60)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a page, each block with the output that is shown below it."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for (kind, content), (next_kind, output) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == "sh":
            yield content, output if next_kind in ("json", "text") else ""


def test_the_examples_of_the_json_door_run(door: str, tmp_path: Path) -> None:
    mark = "--- end of a block ---"
    told = list(blocks(DOOR.read_text()))
    script = "set -eu\n" + "".join(f"{commands}\necho; echo '{mark}'\n" for commands, _ in told)
    result = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PELOTON": door},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, (result.stdout, result.stderr)
    outputs = [each.strip() for each in result.stdout.split(mark)]
    for (commands, expected), output in zip(told, outputs, strict=False):
        pattern = re.escape(expected.strip()).replace("…", ".*?")
        assert not expected or re.fullmatch(pattern, output), (commands, output)
    assert sum(bool(expected) for _, expected in told) >= 4
    assert len(told) == len(outputs) - 1
    OpenAPIV31SpecValidator(json.loads((tmp_path / "openapi.json").read_text())).validate()
