"""docs/clients.md: each language's program, in an empty folder, by what the page says alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import ROOT, Shared

PAGE = (ROOT / "docs" / "clients.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {"go": "main.go", "python": "hello.py", "yaml": "job.yaml"}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", ["Go", "Python"])
def test_the_program_of_a_language(shared: Shared, tmp_path: Path, language: str) -> None:
    section = PAGE.partition(f"\n## {language}\n")[2].partition("\n## ")[0]
    spec = next(text for kind, text in BLOCK.findall(PAGE) if kind == "yaml")
    (tmp_path / "job.yaml").write_text(spec)
    output = ""
    for kind, text in BLOCK.findall(section):
        if kind in FILES:
            (tmp_path / FILES[kind]).write_text(text)
        elif kind == "sh":
            output = shared.run("bash", "-euc", text, cwd=tmp_path, PELOTON=str(ROOT), POOL="/test")
    lines = output.splitlines()
    assert lines[-4:] == ["SUCCEEDED", "0 SUCCEEDED", "1 SUCCEEDED", "hello from 1"], output
