"""`peloton-migrate` on SQLite, as an operator calls it."""

from __future__ import annotations

import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from peloton import __version__
from storage.selection.migrate import main
from storage.sqlite.migrate import migrations

NEWEST = max(migrations())


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What an action on a path says in the folder that holds the settings; of a failure the last words."""
    monkeypatch.chdir(tmp_path)
    for name in ("CASSANDRA_HOSTS", "CASSANDRA_STORE", "CASSANDRA_PORT"):
        monkeypatch.delenv(name, raising=False)

    def run(action: str, path: str) -> str:
        Path("storage.yaml").write_text(f"storage: {{kind: sqlite, path: {path}}}\n")
        try:
            main([action, "-c", "storage.yaml"])
        except SystemExit as ended:
            return str(ended.code)
        return capsys.readouterr().out.rstrip("\n")

    return run


def database(path: str, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


@pytest.mark.parametrize("path", ["peloton.db", "deeper/peloton.db", "with space?and#more.db"])
def test_a_path_may_be_relative(told: Callable[..., str], tmp_path: Path, path: str) -> None:
    path = path if "#" not in path else f'"{path}"'
    where = tmp_path / path.strip('"')
    assert told("version", path) == (
        f"peloton-migrate: database {where} does not exist: peloton-migrate up creates it"
    )
    for action in ("up", "up", "version", "check"):
        assert told(action, path) == f"database {where} has schema version {NEWEST}"
    assert where.exists()


def test_a_database_without_a_schema(told: Callable[..., str], tmp_path: Path) -> None:
    database("other.db", "CREATE TABLE others (x)")
    assert told("version", "other.db") == f"database {tmp_path}/other.db has schema version 0"
    assert told("check", "other.db") == (
        f"peloton-migrate: database {tmp_path}/other.db has schema version 0, this program needs {NEWEST}: "
        "peloton-migrate up updates it"
    )


def test_the_versions_that_led_last_are_told(told: Callable[..., str], tmp_path: Path) -> None:
    told("up", "led.db")
    database(
        "led.db",
        "INSERT INTO terms VALUES ('jobmanager', 4, '0.2.0'), ('hostmanager', 9, '0.3.1')",
        "INSERT INTO terms (role, term) VALUES ('resourcemanager', 2)",  # as 0.1 wrote it
    )
    assert told("version", "led.db") == (
        f"database {tmp_path}/led.db has schema version {NEWEST}; last written by hostmanager 0.3.1, "
        "jobmanager 0.2.0"
    )


def test_a_schema_of_the_first_version_has_no_writers(told: Callable[..., str], tmp_path: Path) -> None:
    database(
        "old.db",
        "CREATE TABLE schema_version (version INTEGER PRIMARY KEY)",
        "INSERT INTO schema_version VALUES (6)",
        "CREATE TABLE terms (role TEXT PRIMARY KEY, term INTEGER NOT NULL)",
    )
    assert told("version", "old.db") == f"database {tmp_path}/old.db has schema version 6"


def test_a_newer_schema(told: Callable[..., str], tmp_path: Path) -> None:
    told("up", "newer.db")
    database("newer.db", "INSERT INTO schema_version VALUES (99)")
    known = (
        f"has schema version 99; this program knows versions up to {NEWEST}, it is Peloton {__version__}: run"
    )
    said = told("check", "newer.db")
    assert said.startswith(f"peloton-migrate: database {tmp_path}/newer.db {known}")
    said = told("up", "newer.db")
    assert said.startswith(f"peloton-migrate: {tmp_path}/newer.db: database {known}")


@pytest.mark.parametrize("action", ["up", "version", "check"])
def test_what_is_no_database_is_named(told: Callable[..., str], tmp_path: Path, action: str) -> None:
    Path("junk.db").write_text("hello\n" * 1000)
    said = told(action, "junk.db")
    assert said == f"peloton-migrate: {tmp_path}/junk.db: not a sound database: file is not a database"


def test_settings_without_a_store(tmp_path: Path) -> None:
    file = tmp_path / "common.yaml"
    file.write_text("membership: {kind: local}\n")
    with pytest.raises(SystemExit, match=f"^peloton-migrate: {file}: storage: is needed, and not given$"):
        main(["up", "-c", str(file)])


def test_interrupted_it_ends_quietly(tmp_path: Path) -> None:
    """While a server keeps it waiting."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = tmp_path / "storage.yaml"
        file.write_text(f"storage: {{kind: cassandra, port: {silent.getsockname()[1]}}}\n")
        command = [sys.executable, "-m", "storage.selection.migrate", "up", "-c", str(file)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        silent.settimeout(60)
        with silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
