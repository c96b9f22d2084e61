"""No thread of a frozen process runs once `freeze` has returned."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.freezing import freeze

BUSY_THREADS = """
import hashlib, threading
def work():
    while True:
        hashlib.sha256(bytes(1_000_000)).digest()  # without the lock of the interpreter
for _ in range(4):
    threading.Thread(target=work).start()
print("busy", flush=True)
"""


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", BUSY_THREADS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"busy\n"
        yield process.pid
        process.kill()


def test_every_thread_stands_still(busy: int) -> None:
    for _ in range(20):
        freeze(busy)
        states = [
            re.findall(r"State:\s+(\w)", status.read_text())[0]
            for status in Path(f"/proc/{busy}/task").glob("*/status")
        ]
        assert len(states) == 5
        assert set(states) == {"T"}
        os.kill(busy, signal.SIGCONT)
        time.sleep(0.005)  # for its threads to run again


def test_a_process_that_has_ended_is_refused() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(ProcessLookupError):
        freeze(ended.pid)
