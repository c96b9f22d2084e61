"""What docs/operations.md says of deployments: its file is read, and a test runs each command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deployer.installation import read_installation
from peloton.cli.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = re.findall(
    r"^peloton deploy (\w+) .*", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE
)
ON_A_CLUSTER = (ROOT / "tests" / "cluster" / "test_deploy.py").read_text()


def test_the_file_of_the_page_is_an_installation() -> None:
    found = read_installation(ROOT / "deploy" / "installation.yaml")
    assert found.groups == ["hostmgr", "resmgr", "batch", "services", "jobmgr"]


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"render"}))
def test_commands_are_run_on_a_cluster(command: str) -> None:
    assert len(COMMANDS) >= 6
    assert (
        re.search(rf'deployer(?:\.\w+)?\("{command}"', ON_A_CLUSTER) or f"deployer.{command}(" in ON_A_CLUSTER
    )


def test_units_are_rendered(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "deploy" / "installation.yaml"
    assert main(["deploy", "render", "--systemd", "-f", str(file), "-d", str(tmp_path / "rendered")]) == 0
    written = capfd.readouterr().out.splitlines()
    assert str(tmp_path / "rendered" / "systemd" / "peloton-jobmgr.service") in written
    assert all(Path(each).exists() for each in written)


def test_what_is_wrong_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "plan", "-f", str(tmp_path / "none.yaml")]) == 1
    assert capfd.readouterr().err == f"peloton: {tmp_path / 'none.yaml'}: No such file or directory\n"
