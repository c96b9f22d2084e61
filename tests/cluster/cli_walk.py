"""Calls commands of `peloton` on a cluster, and keeps which commands and flags were called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import click
import pytest

from peloton.cli.__main__ import main
from tests.command_tree import OUTPUT, Path, commands, options

SECONDS = 60


class Walk:
    """Runs commands in this process; `missing` tells which were left out."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd = capfd
        self._called: set[tuple[Path, str]] = set()
        invoke = click.Command.invoke

        def noted(command: click.Command, ctx: click.Context) -> Any:
            self._note(ctx)
            return invoke(command, ctx)

        monkeypatch.setattr(click.Command, "invoke", noted)

    def _note(self, ctx: click.Context) -> None:
        path = tuple(ctx.command_path.split()[1:])
        self._called.add((path, ""))
        for param in ctx.command.params:
            given = param.name and ctx.get_parameter_source(param.name)
            if isinstance(param, click.Option) and given is click.core.ParameterSource.COMMANDLINE:
                self._called.add((path, str(param.name)))

    def __call__(self, line: str, *more: str, says: str = "", code: int = 0) -> str:
        """Run the words of a line, and some more; return standard output, or what went wrong."""
        words = [*line.split(), *more]
        self._capfd.readouterr()
        ended = main(words)
        out, err = self._capfd.readouterr()
        assert ended == code, (words, ended, out, err)
        assert says in out + err, (words, out, err)
        assert "defect" not in err and "Traceback" not in err, (words, err)
        return out or err

    def streamed(self, line: str, *more: str) -> str:
        """Run a command that goes on until it is interrupted; return its first line."""
        words = [*line.split(), *more]
        found = options(commands()[self._path(words)])
        flags = {str(each.name) for each in found if set(each.opts) & set(words)}
        self._called |= {(self._path(words), name) for name in ("", *flags)}
        process = subprocess.Popen(
            [sys.executable, "-m", "peloton.cli", *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        with process.stdout as lines:
            first = lines.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 130
        return first

    @staticmethod
    def _path(words: list[str]) -> Path:
        return max((path for path in commands() if tuple(words[: len(path)]) == path), key=len)

    def missing(self, besides: Mapping[Path, str]) -> list[str]:
        """Return the commands and flags that were not called, without those that `besides` holds."""
        wanted = {
            (path, name)
            for path, command in commands().items()
            if path not in besides
            for name in ("", *(str(each.name) for each in options(command)))
        }
        left = {(path, name) for path, name in wanted - self._called if name not in OUTPUT}
        return sorted(" ".join((*path, name)).strip() for path, name in left)
