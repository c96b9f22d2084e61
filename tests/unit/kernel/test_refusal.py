"""A daemon whose store refuses it ends, with one line that says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_leader_refused_by_the_store_ends(tmp_path: Path) -> None:
    database = tmp_path / "peloton.db"
    database.write_text("no database " * 1000)
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        f"membership: {{kind: local, directory: {tmp_path / 'members'}}}\nstorage: {{path: {database}}}\n"
    )
    command = [sys.executable, "-m", "jobmgr", "-c", str(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (told,) = [line for line in done.stderr.splitlines() if "not a sound database" in line]
    assert str(database) in told
