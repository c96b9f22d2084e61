"""What an agent ends of which it knows nothing: what is told by processes is theirs to write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minicluster.mesos.agent.cleanup import CONTAINER_VARIABLE, SANDBOX_VARIABLE, end_container, end_unknown
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.common.process_identity import start_of


@pytest.mark.parametrize("container", ["../../slaves/evil", "evil", ""])
def test_a_container_that_a_task_makes_up_is_none(tmp_path: Path, container: str) -> None:
    """Its record would be a file of the task's, with a command that the agent runs."""
    layout = Layout(tmp_path)
    layout.make()
    planted, ran = layout.slaves / "evil.json", tmp_path / "ran"
    planted.write_text(json.dumps({"after": ["touch", str(ran)]}))
    forged = {SANDBOX_VARIABLE: f"{layout.slaves}/x", CONTAINER_VARIABLE: container}
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **forged},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert end_unknown(layout, ()) == 0
        assert process.poll() is None and planted.exists() and not ran.exists()
        process.communicate(b"")


def test_what_a_supervisor_is_just_starting_is_ended_with_it(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    code = "import subprocess; task = subprocess.Popen(['sleep', '600'], start_new_session=True, env={}); "
    code += "print(task.pid, flush=True); task.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        task = int(process.stdout.readline())
        record = {"supervisor": {"pid": process.pid, "start": start_of(process.pid)}, "after": None}
        Path(layout.pid_file("c")).write_text(json.dumps(record))
        assert end_container(layout, "c")
        assert start_of(task) is None and start_of(process.pid) is None
