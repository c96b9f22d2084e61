"""Lines of the log: what others say in them cannot look like another line, nor steer a terminal."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from peloton.daemon.log import printable, set_up


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    set_up()
    yield text
    root.handlers[:] = before[0]
    root.setLevel(before[1])


FORGED = "job 7\n2026-11-23T15:00:00.000Z I peloton all is well\r\x1b[2J\x1b]0;title\x07\x7f\x9b1m\u2028end"


def test_a_message_is_one_line_of_printable_text(written: io.StringIO) -> None:
    logging.getLogger("peloton.test").warning("no such %s", FORGED)
    [line] = written.getvalue().splitlines()
    assert line.endswith(
        "W peloton.test no such job 7\\n2026-11-23T15:00:00.000Z I peloton all is well"
        "\\r\\x1b[2J\\x1b]0;title\\x07\\x7f\\x9b1m\\u2028end"
    )


def test_a_traceback_is_indented_and_printable(written: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("peloton.test").exception("failed")
    first, *below = written.getvalue().removesuffix("\n").split("\n")
    assert first.endswith("E peloton.test failed")
    assert below[0] == "  Traceback (most recent call last):" and all(line.startswith("  ") for line in below)
    assert "\x1b" not in written.getvalue() and "  2026-11-23T15:00:00.000Z" in "\n".join(below)


def test_letters_of_all_languages_stay() -> None:
    assert printable("Grüße, 世界, héllo 🙂") == "Grüße, 世界, héllo 🙂"


@pytest.mark.parametrize("part", ["master", "agent"])
def test_masters_and_agents_escape_what_they_are_told(part: str) -> None:
    argv = [sys.executable, "-m", f"minicluster.mesos.{part}", "--work-dir=/proc/none", f"--ip={FORGED}"]
    argv += ["--master=127.0.0.1:1"] if part == "agent" else []
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "\x1b" not in done.stderr and len(done.stderr.splitlines()) == 1
