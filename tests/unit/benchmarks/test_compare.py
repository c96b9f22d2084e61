"""benchmarks/compare.py on a small repository of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks import compare
from benchmarks.checkouts import ROOT, different_pins, pins

PROJECT = '[project]\nname = "tiny"\ndependencies = ["numpy==0.0.1; sys_platform == \'win32\'"]\n'
TINY = """
import sys
print("arguments:", len(sys.argv) - 1)
print("steps per second:", {rate})
"""
PROGRAM = """
import pathlib, sys
from benchmarks.compare import main
sys.exit(main(sys.argv[2:], pathlib.Path(sys.argv[1])))
"""
COMPILED = """
import os
print("steps per second:", 300 + 600 * int(os.environ["PELOTON_COMPILED"]))
"""
COMPILES = """
import os, pathlib
assert os.environ["PELOTON_COMPILED"] == "0"
pathlib.Path(".compiled").mkdir()
pathlib.Path(".compiled/manifest.json").touch()
"""
ENDLESS = """
import os, pathlib, time
pathlib.Path({path!r}).write_text(str(os.getpid()))
time.sleep(600)
"""


def git(root: Path, *arguments: str) -> str:
    author = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(root), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of a benchmark called tiny, and a change that is not committed."""
    root = tmp_path / "repository"
    (root / "benchmarks").mkdir(parents=True)
    (root / "benchmarks/__init__.py").touch()
    (root / "pyproject.toml").write_text(PROJECT)
    git(tmp_path, "init", "-q", str(root))
    for rate in (100, 200):
        (root / "benchmarks/tiny.py").write_text(TINY.format(rate=rate))
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", f"Rate {rate}")
    (root / "benchmarks/tiny.py").write_text(TINY.format(rate=400))
    return root


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs of the test make their temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def left(repository: Path, temporary: Path) -> list[str]:
    worktrees = git(repository, "worktree", "list", "--porcelain").split("\n\n")
    return [each for each in worktrees[1:] if each.strip()] + [str(path) for path in temporary.iterdir()]


def test_a_commit_is_compared_with_the_checkout_as_it_is(
    repository: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["HEAD~1", "--benchmark", "tiny", "--rounds", "2", "--", "--tasks", "10"]
    assert compare.main(arguments, repository) == 0
    said, told = capsys.readouterr()
    assert "Rate 100" in said and "Rate 200 with changes" in said
    rows = {line[:38].strip(): line[38:].split() for line in said.splitlines()}
    assert rows["steps per second"][:3] == ["100", "400", "4.000"]
    assert rows["arguments"][:3] == ["2", "2", "1.000"]
    assert "CPU seconds, whole run" in rows and "CPU microseconds per task, whole run" in rows
    assert [line.split(":")[0] for line in told.splitlines()] == [
        "round 1 old",
        "round 1 new",
        "round 2 new",
        "round 2 old",
    ]
    assert "load before each run" in said and "other processes took" in said
    assert left(repository, temporary) == []


def test_two_commits_are_compared(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["HEAD", "HEAD~1", "--benchmark", "tiny", "--rounds", "1"], repository) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("steps"))
    assert row.split()[3:6] == ["200", "100", "0.500"]


def test_the_new_one_runs_compiled_and_the_old_one_plain(
    repository: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["HEAD", "--benchmark", "tiny", "--rounds", "1", "--compiled"]
    (repository / "tools").mkdir()
    (repository / "tools/__init__.py").touch()
    (repository / "tools/compiled.py").touch()
    (repository / "benchmarks/tiny.py").write_text(COMPILED)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Compiles nothing")
    assert compare.main(arguments, repository) == 1
    assert "is not compiled: there is no C compiler" in capsys.readouterr().err
    (repository / "tools/compiled.py").write_text(COMPILES)
    assert compare.main(arguments, repository) == 0
    said = capsys.readouterr().out
    assert "Compiles nothing with changes, compiled" in said
    row = next(line for line in said.splitlines() if line.startswith("steps"))
    assert row.split()[3:6] == ["300", "900", "3.000"]
    assert left(repository, temporary) == []


def test_a_commit_that_is_not_there_is_told(
    repository: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main(["nothing", "--benchmark", "tiny"], repository) == 1
    assert "nothing" in capsys.readouterr().err
    assert left(repository, temporary) == []


def test_a_benchmark_that_fails_is_told_or_taken_as_far_as_it_came(
    repository: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (repository / "benchmarks/tiny.py").open("a") as file:
        file.write("sys.exit('no more hosts')\n")
    arguments = ["HEAD", "--benchmark", "tiny", "--rounds", "1"]
    assert compare.main(arguments, repository) == 1
    assert "ended with code 1: no more hosts" in capsys.readouterr().err
    assert compare.main([*arguments, "--partial"], repository) == 0
    assert "2.000" in capsys.readouterr().out
    assert left(repository, temporary) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(repository: Path, temporary: Path, number: signal.Signals) -> None:
    begun = temporary.parent / "begun"
    (repository / "benchmarks/endless.py").write_text(ENDLESS.format(path=str(begun)))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Endless")
    os.mkfifo(begun)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(repository), "HEAD", "--benchmark", "endless"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    child = int(begun.read_text())  # waits until it is written
    process.send_signal(number)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130, said
    assert not psutil.pid_exists(child)
    assert left(repository, temporary) == []


def test_pins_decide_whether_the_environment_is_shared(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\ndependencies = ["numpy==0.0.1", "pyjwt[crypto]==0.1; os_name"]\n'
    )
    (tmp_path / "constraints.txt").write_text("# resolved\nhttpcore==1.2.3\n")
    assert pins(tmp_path) == {"numpy": "0.0.1", "pyjwt": "0.1", "httpcore": "1.2.3"}
    assert different_pins(tmp_path) == ["numpy==0.0.1", "pyjwt==0.1", "httpcore==1.2.3"]


def test_this_checkout_has_its_own_pins() -> None:
    assert different_pins(ROOT) == []
