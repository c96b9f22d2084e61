"""docs/policies.md: its functions keep the contract, and its commands run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.documented import blocks
from tools.docs import ROOT

PAGE = ROOT / "docs" / "policies.md"
TRACE = '{"name": "a", "submit": 0, "pool": "/a", "seconds": 60, "instances": 3}\n' * 4
CLUSTER = "hosts: [{count: 2, cpu: 4, memory: 8000}]\npools: [{path: /a}]\n"


def test_its_functions_keep_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "policies"))
    names: dict[str, Any] = {"packed": import_module("peloton_example_policies.strategies").packed}
    programs = [block for block in blocks(PAGE) if block.language == "python"]
    for block in programs:
        exec(compile(block.text, block.place, "exec"), names)
    assert len(programs) == 5
    names["test_contract"]()


def test_its_commands_run(tmp_path: Path) -> None:
    [commands] = [block.text for block in blocks(PAGE) if block.language == "sh"]
    assert commands.startswith("pip install ./examples/policies ")
    shutil.copytree(ROOT / "examples" / "policies", tmp_path / "examples" / "policies")
    (tmp_path / "jobs.jsonl").write_text(TRACE)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    target = f"python -m pip install -q --no-deps --no-index --no-build-isolation --target {tmp_path}/own "
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.replace("pip install ", target)],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{tmp_path}/own",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("mean wait") >= 2 or done.stdout.count("Wait") >= 2, done.stdout
