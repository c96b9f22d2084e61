"""Files that hold secrets: daemons refuse those that others can use, and make their own for nobody else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostmgr.composition.mesos import access_of
from hostmgr.config import MesosSettings
from peloton.config.config_error import ConfigError
from peloton.config.loading import validated
from peloton.config.membership import ZooKeeperMembershipSettings
from peloton.config.private import FOLDER, make_folder, require_private, write_private
from peloton.errors import PelotonError
from peloton.membership.zookeeper import open_membership
from storage.config import CassandraSettings
from storage.selection.factory import Stores
from tests.contract.mesos_driver.certificates import Authority

OPEN = "its mode 0640 lets others use it: `chmod 600` it"


def membership(**settings: object) -> None:
    tree = {"servers": "127.0.0.1:1", **settings}
    open_membership(validated(ZooKeeperMembershipSettings, tree, "test"))


def mesos(**settings: object) -> None:
    access_of(validated(MesosSettings, settings, "test"))


def store(**settings: object) -> None:
    Stores(validated(CassandraSettings, settings, "test"))


FILES: dict[str, tuple[Callable[..., None], dict[str, object]]] = {
    "membership.credentials_file": (membership, {}),
    "mesos.secret_file": (mesos, {}),
    "storage.password_file": (store, {"username": "me"}),
}


@pytest.mark.parametrize("setting", FILES)
def test_a_file_with_a_password_that_others_can_read_is_refused(tmp_path: Path, setting: str) -> None:
    use, more = FILES[setting]
    file = tmp_path / "file"
    write_private(file, "user:hidden")
    name = setting.rpartition(".")[2]
    use(**{name: str(file)}, **more)
    file.chmod(0o640)
    with pytest.raises(PelotonError, match=f"{setting}: {file}: {OPEN}"):
        use(**{name: str(file)}, **more)


@pytest.mark.parametrize("role", ["membership", "mesos", "storage"])
@pytest.mark.parametrize("apart", [True, False], ids=["key_file", "certificate_file with the key"])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, role: str, apart: bool) -> None:
    use: Callable[..., None] = {"membership": membership, "mesos": mesos, "storage": store}[role]
    authority = Authority(tmp_path)
    own = authority.identity("own", "DNS:own")
    files = {"certificate_file": str(own.certificate)}
    if apart:
        files["key_file"] = str(own.key)
    else:
        own.certificate.write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
        own.certificate.chmod(0o600)
    tls = {"enabled": True, "ca_file": str(authority.file), **files}
    use(tls=tls)
    held = own.key if apart else own.certificate
    held.chmod(0o640)
    setting = "key_file" if apart else "certificate_file"
    with pytest.raises(PelotonError, match=f"{role}.tls.{setting}: {held}: {OPEN}"):
        use(tls=tls)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("owner", "mode", "refused"),
    [
        (0, 0o640, ""),
        (0, 0o660, "lets others use it"),
        (0, 0o644, "lets others use it"),
        (4242, 0o600, ""),
        (4242, 0o640, "lets others use it"),
        (4243, 0o640, "belongs to user 4243, not to 4242"),
    ],
)
def test_a_file_is_this_users_or_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, refused: str
) -> None:
    file = tmp_path / "file"
    write_private(file, "hidden")
    os.chown(file, owner, 0)
    file.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    if not refused:
        require_private(file, "setting")
        return
    with pytest.raises(ConfigError, match=f"setting: {file}: .*{refused}"):
        require_private(file, "setting")


def test_what_is_made_is_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b")
        write_private(tmp_path / "a" / "file", "x")
        (tmp_path / "a" / "open").touch()
        write_private(tmp_path / "a" / "open", "y")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").iterdir()}
    assert modes == {"b": FOLDER, "file": 0o600, "open": 0o600}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == FOLDER


STORE = "storage: {{kind: sqlite, path: {0}/made/store/peloton.db}}\n"
MEMBERSHIP = "membership: {{kind: local, directory: {0}/made/membership}}\n"
FREE_PORT = "http_port: 0\n"
PROGRAMS = {
    "jobmgr": (STORE + MEMBERSHIP, ["jobmgr"], "store/peloton.db-wal"),
    "web": (MEMBERSHIP + FREE_PORT, ["peloton.web"], "membership/jobmanager"),
    "migrate": (STORE, ["storage.selection.migrate", "up"], "store/peloton.db"),
}
SECONDS = 60.0


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_make_their_files_for_this_user_alone(tmp_path: Path, name: str) -> None:
    """Whatever umask they are started with: here one that lets everybody do everything."""
    settings, words, awaited = PROGRAMS[name]
    config, made = tmp_path / "config.yaml", tmp_path / "made"
    config.write_text(settings.format(tmp_path))
    command = [sys.executable, "-m", *words, "-c", str(config)]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, umask=0, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SECONDS
        while not (made / awaited).exists():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
        modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in (made, *made.rglob("*"))}
    finally:
        program.terminate()
        program.wait(SECONDS)
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}
