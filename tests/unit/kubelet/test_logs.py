"""How a kubelet reads logs."""

from __future__ import annotations

import io

import pytest

from minicluster.kubernetes.kubelet.commands import Wanted, status_of
from minicluster.kubernetes.kubelet.logs import CannotBeRead, WantedLog, tail_begin


@pytest.mark.parametrize(
    ("content", "lines", "begin"),
    [
        (b"a\nb\nc\n", 2, 2),
        (b"a\nb\nc", 2, 2),
        (b"a\nb\n", 5, 0),
        (b"a\nb\n", 0, 4),
        (b"", 3, 0),
    ],
)
def test_the_last_lines(content: bytes, lines: int, begin: int) -> None:
    assert tail_begin(io.BytesIO(content), lines) == begin


def test_what_is_asked_for() -> None:
    assert WantedLog.of("follow=true&limitBytes=7&tailLines=3") == WantedLog(True, 7, 3)
    assert WantedLog.of("timestamps=false") == WantedLog(False, None, None)
    for query in ("timestamps=true", "sinceSeconds=1", "previous=true", "limitBytes=x"):
        with pytest.raises(CannotBeRead):
            WantedLog.of(query)


def test_the_streams_of_a_command() -> None:
    wanted = Wanted("command=cat&command=a+b&input=1&output=1&error=1")
    assert wanted.command == ["cat", "a b"] and not wanted.terminal
    assert wanted.streams == {"stdin", "stdout", "stderr", "error"}
    assert Wanted("command=sh&input=1&output=1&error=1&tty=1").streams == {
        "stdin",
        "stdout",
        "error",
        "resize",
    }


def test_how_a_command_ended() -> None:
    assert status_of(0)["status"] == "Success"
    failed = status_of(7 << 8)
    assert failed["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}
    assert status_of(9)["details"] == {"causes": [{"reason": "ExitCode", "message": "137"}]}
    assert status_of(None)["reason"] == "InternalError"
