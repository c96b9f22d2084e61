"""`peloton respool list | get | tree | edit`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.cli.pool_rows import pool_tree
from peloton.private.jobmgr.usage import usage_pb2

from .conftest import Run
from .fakes import FakeDaemons


def pool(path: str, parent: str = "") -> respool_pb2.ResourcePoolInfo:
    amount = respool_pb2.ResourceConfig(kind="cpu", reservation=2, limit=4)
    return respool_pb2.ResourcePoolInfo(
        id=peloton_pb2.ResourcePoolID(value=f"id of {path}"),
        parent=peloton_pb2.ResourcePoolID(value=f"id of {parent}") if parent else None,
        path=respool_pb2.ResourcePoolPath(value=path),
        config=respool_pb2.ResourcePoolConfig(name=path.rpartition("/")[2], resources=[amount]),
        usage=[respool_pb2.ResourceUsage(kind="cpu", allocation=0.5, slack=0.25)],
    )


@pytest.fixture(autouse=True)
def pools(daemons: FakeDaemons) -> None:
    found = [pool("/b", "/"), pool("/"), pool("/a/x", "/a"), pool("/a", "/"), pool("/a/y", "/a")]
    daemons.answers["Query"] = respool_pb2.QueryResponse(resourcePools=found)
    daemons.answers["UpdateResourcePool"] = respool_pb2.UpdateResponse()


def test_list(run: Run) -> None:
    assert run("respool", "list", "-o", "name").out.split() == ["/", "/a", "/a/x", "/a/y", "/b"]
    row = run("respool", "list").out.splitlines()[3].split()
    assert row[:4] == ["/a/x", "0.75", "2", "4"]


def test_the_work_that_was_lost_is_summed_over_the_pools_below(run: Run, daemons: FakeDaemons) -> None:
    losses = [
        usage_pb2.PoolLoss(pool_id=peloton_pb2.ResourcePoolID(value=f"id of {path}"), seconds=seconds)
        for path, seconds in (("/a/x", 90.0), ("/a/y", 30.0), ("/gone", 5.0))
    ]
    daemons.answers["ListLosses"] = usage_pb2.ListLossesResponse(losses=losses)
    head, *rows = run("respool", "list", "-o", "wide").out.splitlines()
    at = head.index("Work Lost")
    assert [row[at:].split("  ")[0] for row in rows] == ["2 min", "2 min", "1 min 30 s", "30 s", ""]
    assert "lostSeconds: 120.0" in run("respool", "get", "/a").out
    assert "lostSeconds: 0.0" in run("respool", "get", "/b").out
    assert json.loads(run("respool", "get", "/a/x", "-j").out)["lostSeconds"] == 90.0


def test_pools_are_shown_while_the_job_manager_is_away(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["ListLosses"] = (grpc.StatusCode.PERMISSION_DENIED, "not you")
    head, *rows = run("respool", "list", "-o", "wide").out.splitlines()
    assert {row[head.index("Work Lost") :].split()[0] for row in rows} == {"?"}
    shown = run("respool", "get", "/a")
    assert shown.code == 0 and "lostSeconds" not in shown.out


def test_get_and_a_path_that_is_not_there(run: Run) -> None:
    assert "reservation: 2.0" in run("respool", "get", "/a/x/").out
    assert run("respool", "get", "/a/x", "-o", "name").out == "/a/x\n"
    refused = run("respool", "get", "/a/xx")
    assert refused.code == 1 and "no resource pool '/a/xx'; did you mean /a/x?" in refused.err
    assert "`peloton respool list` lists them" in run("respool", "tree", "elsewhere").err


def test_tree(run: Run) -> None:
    lines = [line.partition("  ")[0] for line in run("respool", "tree").out.splitlines()]
    assert (lines[0] == "/" and lines[1:3] == ["├── a", "│   ├── x"]) or lines[1] == "├── a"
    whole = run("respool", "tree").out.splitlines()
    assert [line.split("  cpu")[0] for line in whole] == ["/", "├── a", "│   ├── x", "│   └── y", "└── b"]
    assert whole[0].endswith("cpu 0.75 of 4 cores (reserved 2 cores)")
    narrow = pool_tree([pool("/b", "/"), pool("/")], 40).splitlines()
    cpu = "cpu 0.75 of 4 cores (reserved 2 cores)"
    assert narrow == ["/", f"│   {cpu}", "└── b", f"        {cpu}"]
    part = run("respool", "tree", "/a").out.splitlines()
    assert [line.split("  cpu")[0] for line in part] == ["/a", "├── x", "└── y"]


def editor(tmp_path: Path, code: str) -> str:
    """Return a command that changes the text in the file that it is given."""
    script = tmp_path / "editor.py"
    script.write_text(
        f"import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\ntext = file.read_text()\n{code}\n"
    )
    return f"{sys.executable} {script}"


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        ("file.write_text(text.replace('limit: 4.0', 'limit: 8'))", 8.0),
        ("file.write_text(text)", None),
        ("file.write_text('')", None),
        ("pass", None),
    ],
)
def test_edit(
    run: Run,
    daemons: FakeDaemons,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    sent: float | None,
) -> None:
    monkeypatch.setenv("VISUAL", editor(tmp_path, code))
    outcome = run("respool", "edit", "/a/x")
    assert outcome.code == 0
    requests = daemons.requests("UpdateResourcePool")
    if sent is None:
        assert not requests and "is as it was" in outcome.err
        return
    config = requests[0].config
    assert (requests[0].id.value, config.name, config.resources[0].limit) == ("id of /a/x", "x", sent)


def test_what_an_editor_writes_wrongly_is_refused_with_its_line(
    run: Run, daemons: FakeDaemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", editor(tmp_path, "file.write_text('resources: [{kind: cpu, limit: lots}]')"))
    refused = run("respool", "edit", "/a/x")
    assert refused.code == 1 and "line:1: resources[0].limit: 'lots' is not an amount in cores" in refused.err
    assert not daemons.requests("UpdateResourcePool")
