"""The example policies, installed as a distribution of their own is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "policies"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the examples, beside a module `mine` whose text a test writes; return its folder."""
    folder = tmp_path / "site"
    info = folder / "examples-1.0.dist-info"
    info.mkdir(parents=True)
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())["project"]
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 1.0\n")
    groups = {name: dict(entries) for name, entries in project["entry-points"].items()}
    groups["peloton.host_scorers"] |= {
        "mine": "mine:score",
        "gone": "mine_gone:score",
        "number": "mine:NUMBER",
    }
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items())
        for name, each in groups.items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    (folder / "mine.py").write_text("NUMBER = 7\ndef score(hosts, task): return -hosts.memory\n")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(folder))
    return folder
