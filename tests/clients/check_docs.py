"""docs/clients.md: each language's program, in an empty folder, by what the page says alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from .conftest import ROOT, Shared

PAGE = (ROOT / "docs" / "clients.md").read_text()
BLOCK = re.compile(r"(?:`([\w.]+)`(?:[^`\n]|\n(?!\n))*:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block, with the name of the file that the sentence before it begins with."""
PROGRAMS = {"Go": ["main.go"], "Python": ["hello.py", "hello_async.py"], "Java": ["Hello.java", "pom.xml"]}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Maven may end its output with the code that sets colours back, whatever it is told."""
Run = Callable[..., str]
"""Runs a command, and returns its output."""
END = ["SUCCEEDED", "0 SUCCEEDED", "1 SUCCEEDED", "hello from 1"]


def outputs_of(language: str, folder: Path, spec: str, run: Run) -> list[list[str]]:
    """Write the program of a language and the spec of its job; return the lines of each run of it."""
    section = PAGE.partition(f"\n## {language}\n")[2].partition("\n## ")[0]
    (folder / "job.yaml").write_text(spec)
    outputs = []
    for name, kind, text in BLOCK.findall(section):
        if kind == "sh":
            outputs.append(COLOURS.sub("", run("bash", "-euc", text)).splitlines())
        else:
            assert name in PROGRAMS[language], text
            (folder / name).write_text(text)
    assert all((folder / name).exists() for name in PROGRAMS[language])
    return outputs


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_programs_of_a_language(shared: Shared, tmp_path: Path, language: str) -> None:
    spec = next(text for _, kind, text in BLOCK.findall(PAGE) if kind == "yaml")
    run = partial(shared.run, cwd=tmp_path, PELOTON=str(ROOT), POOL="/test")
    outputs = outputs_of(language, tmp_path, spec, run)
    assert outputs and [output[-4:] for output in outputs] == [END] * len(outputs), outputs
    assert not [line for output in outputs for line in output if "SLF4J" in line or "WARN" in line]
