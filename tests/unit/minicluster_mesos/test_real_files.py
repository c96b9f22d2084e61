"""What an agent opens in a sandbox is in the sandbox, whatever its task does meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.sandbox_files import Files
from minicluster.mesos.common.http_messages import Request, Response
from minicluster.mesos.common.real_files import open_real


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "slaves/S0/frameworks/F0/executors/e/runs/c"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "file").write_text("own")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "file").write_text("key")
    return made


def turn_into_link(path: Path, target: Path) -> None:
    path.rename(path.with_name("before"))
    path.symlink_to(target)


def test_the_file_itself_is_opened(sandbox: Path) -> None:
    with open_real(sandbox / "sub" / "file") as file:
        assert file.read() == b"own"


@pytest.mark.parametrize("part", ["sub", "sub/file"])
def test_what_became_a_link_is_not(sandbox: Path, tmp_path: Path, part: str) -> None:
    turn_into_link(sandbox / part, tmp_path / "keys" / part.removeprefix("sub").lstrip("/"))
    with pytest.raises(OSError, match=r"any more|Too many levels"):
        open_real(sandbox / "sub" / "file")


def test_a_pipe_keeps_nobody_waiting(sandbox: Path) -> None:
    os.mkfifo(sandbox / "pipe")
    with pytest.raises(FileNotFoundError):
        open_real(sandbox / "pipe")


@pytest.mark.parametrize("part", ["sub", "sub/file"])
def test_a_link_made_after_the_path_was_looked_at_leads_nowhere(
    sandbox: Path, tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(Layout(tmp_path.resolve()))
    find = files._find

    def find_then_change(path: str) -> Path | Response | None:
        found = find(path)
        turn_into_link(sandbox / part, tmp_path / "keys" / part.removeprefix("sub").lstrip("/"))
        return found

    monkeypatch.setattr(files, "_find", find_then_change)
    query = f"path={sandbox}/sub/file&offset=0"
    answer = files.handle("read", Request("GET", "/files/read", query, {}, b""))
    assert (answer.status, answer.body) == (404, b"")
