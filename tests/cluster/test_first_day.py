"""docs/first-day.md: each of its commands does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from minicluster.cluster import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-day.md"
SECONDS = 600.0
MARK = "@@ end of task "
_TASK = re.compile(
    r"^\*\*(?P<number>\d+)\. .*?^```sh\n(?P<commands>.*?)^```\n\n```\n(?P<output>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Task:
    """A task of the page: what is typed, and lines that are printed, in this order, among others."""

    number: int
    commands: str
    lines: tuple[str, ...]


def tasks(page: str) -> list[Task]:
    """Return the tasks of a page."""
    return [
        Task(int(found["number"]), found["commands"], tuple(found["output"].splitlines()))
        for found in _TASK.finditer(page)
    ]


def missing(line: str, printed: list[str]) -> bool:
    """Remove what is printed up to a line of the page; return whether that line is not there."""
    pattern = re.compile(re.escape(" ".join(line.split())).replace("…", ".*"))
    for number, text in enumerate(printed):
        if pattern.fullmatch(text):
            del printed[: number + 1]
            return False
    return True


@pytest.mark.extended
def test_every_task_does_what_the_page_says(tmp_path: Path) -> None:
    todo = tasks(PAGE.read_text())
    assert [task.number for task in todo] == list(range(1, 31))
    script = "".join(f"{task.commands}echo; echo '{MARK}{task.number}'\n" for task in todo)
    script = script.replace("minicluster up\n", "minicluster up --free-ports\n")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PELOTON_", "JOBMGR_"))}
    folder = tmp_path / "cluster"
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env={
                **own,
                "HOME": str(tmp_path),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "PELOTON_MINICLUSTER_DIR": str(folder),
                "COLUMNS": "250",
                "TIMEOUT": "60s",
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    finally:
        if folder.exists():
            Cluster(folder).down()
    assert done.returncode == 0, done.stdout[-4000:]
    rest = done.stdout
    for task in todo:
        text, _, rest = rest.partition(f"{MARK}{task.number}\n")
        printed = [" ".join(line.split()) for line in text.splitlines()]
        lacking = [line for line in task.lines if missing(line, printed)]
        assert not lacking, f"task {task.number} does not print {lacking}:\n{text}"
