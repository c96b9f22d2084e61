"""docs/clients.md: each language's program, in an empty folder, by what the page says alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import ROOT, Shared

PAGE = (ROOT / "docs" / "clients.md").read_text()
BLOCK = re.compile(r"(?:`([\w.]+)`(?:[^`\n]|\n(?!\n))*:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block, with the name of the file that the sentence before it begins with."""
PROGRAMS = {"Go": ["main.go"], "Python": ["hello.py", "hello_async.py"], "Java": ["Hello.java", "pom.xml"]}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Maven may end its output with the code that sets colours back, whatever it is told."""
END = ["SUCCEEDED", "0 SUCCEEDED", "1 SUCCEEDED", "hello from 1"]


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_programs_of_a_language(shared: Shared, tmp_path: Path, language: str) -> None:
    section = PAGE.partition(f"\n## {language}\n")[2].partition("\n## ")[0]
    (tmp_path / "job.yaml").write_text(next(text for _, kind, text in BLOCK.findall(PAGE) if kind == "yaml"))
    outputs = []
    for name, kind, text in BLOCK.findall(section):
        if kind == "sh":
            run = shared.run("bash", "-euc", text, cwd=tmp_path, PELOTON=str(ROOT), POOL="/test")
            outputs.append(COLOURS.sub("", run).splitlines())
        else:
            assert name in PROGRAMS[language], text
            (tmp_path / name).write_text(text)
    assert all((tmp_path / name).exists() for name in PROGRAMS[language])
    assert outputs and [output[-4:] for output in outputs] == [END] * len(outputs), outputs
    assert not [line for output in outputs for line in output if "SLF4J" in line or "WARN" in line]
