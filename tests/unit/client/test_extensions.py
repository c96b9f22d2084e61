"""What distributions register for the client and the command line, by their entry points."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from peloton.client.environment import settings_from_environment
from peloton.client.extensions import COMMANDS, LOCAL_CLUSTERS, VARIABLE, find_local_cluster
from peloton.errors import NotFound

ENTRIES = f"""\
[{COMMANDS}]
minicluster = beside:command

[{LOCAL_CLUSTERS}]
beside = beside:find
"""
BESIDE = """\
import click
from pathlib import Path

class Local:
    zookeeper, membership, notice = "", Path("/registered"), "using what is registered"
    def identity(self): return {}

def find(variables): return Local() if "WANTED" in variables else None

@click.command()
def command(): click.echo("the registered command")
"""
CLI = "import sys; from peloton.cli.__main__ import main; sys.exit(main({}))"


def distribution(folder: Path, entries: str, module: str = BESIDE) -> Path:
    info = folder / "beside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    (folder / "beside.py").write_text(module)
    return folder


def ran(code: str, *folders: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose only distributions with entry points are in the folders."""
    paths = [str(each) for each in folders]
    found = f"from importlib import metadata; of = list(metadata.distributions(path={paths!r}))\n"
    each = "[entry for each in of for entry in each.entry_points if entry.group == group]"
    only = f"metadata.entry_points = lambda group: {each}\n"
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path += {paths!r}\n{found}{only}{code}"],
        env={"HOME": "/nonexistent", **variables},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_this_distribution_registers_its_programs() -> None:
    found = {
        group: sorted(entry.value for entry in entry_points(group=group))
        for group in (COMMANDS, LOCAL_CLUSTERS)
    }
    assert found == {
        COMMANDS: [
            "deployer.cli:deploy",
            "minicluster.cli:minicluster",
            "peloton.mcp.cli:mcp",
            "simulator.cli:simulate",
        ],
        LOCAL_CLUSTERS: ["minicluster.discovery:find"],
    }


def test_what_a_distribution_registers_is_used(tmp_path: Path) -> None:
    folder = distribution(tmp_path, ENTRIES)
    assert ran(CLI.format(["minicluster"]), folder).stdout == "the registered command\n"
    done = ran(CLI.format(["job", "get", "x"]), folder, WANTED="1")
    assert done.stderr.splitlines()[0] == "peloton: using what is registered"
    assert "/registered shows no leader of jobmgr" in done.stderr


def test_without_one_the_usual_addresses_are_called(tmp_path: Path) -> None:
    code = "from peloton.client.environment import settings_from_environment as s; print(s({}))"
    assert "'discovery'" not in ran(code, tmp_path).stdout
    assert "cannot reach jobmgr at localhost:5392" in ran(CLI.format(["job", "get", "x"]), tmp_path).stderr


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (CLI.format(["minicluster", "up"]), "`peloton minicluster` is not installed in this environment: "),
        (CLI.format(["job", "get", "x"]), f"{VARIABLE} names /some/where, but no minicluster is installed"),
    ],
)
def test_what_is_not_installed_is_one_line(tmp_path: Path, code: str, said: str) -> None:
    done = ran(code, tmp_path, **{VARIABLE: "/some/where"})
    assert done.returncode == 1
    assert done.stderr.startswith(f"peloton: {said}") and done.stderr.count("\n") == 1


def test_the_client_alone_says_that_it_has_no_minicluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: str) -> tuple[()]:
        return ()

    monkeypatch.setattr("importlib.metadata.entry_points", none)
    assert find_local_cluster({}) is None
    with pytest.raises(NotFound, match="the client's wheel does not"):
        settings_from_environment({VARIABLE: "/some/where"})


def test_a_distribution_that_is_broken_is_named(tmp_path: Path) -> None:
    folder = distribution(tmp_path, f"[{COMMANDS}]\nminicluster = beside:absent\n")
    done = ran(CLI.format(["minicluster"]), folder)
    told = "peloton: beside:absent, the entry point 'minicluster' of peloton.commands, cannot be loaded: "
    assert done.stderr.startswith(told)


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["job", "--help"], ["-m", "127.0.0.1:1", "job", "get", "x"]]
)
def test_nothing_is_looked_up_that_is_not_needed(arguments: list[str]) -> None:
    code = (
        f"import sys\nfrom peloton.cli.__main__ import main\nmain({arguments})\n"
        "sys.exit('importlib.metadata' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
