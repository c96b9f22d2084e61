"""Unit files, checked by systemd itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployer.installation import Installation, installation_from
from deployer.systemd import write_units
from minicluster.servers.maven import Missing
from peloton.config.arguments import parse_arguments
from peloton.errors import InvalidArgument
from tests.conftest import lacking
from tests.unit.deployer.test_installation import TREE

DAEMONS = ("jobmgr", "resmgr", "hostmgr", "placement")


def installation(**changes: Any) -> Installation:
    daemons: dict[str, Any] = {name: {"count": 1, "mem": 300} for name in (*DAEMONS, "archiver", "web")}
    daemons["services"] = {"role": "placement", "settings": {"task_type": ["stateless"]}}
    tree = {**TREE, "daemons": daemons, "version": {"environment": sys.prefix}, "settings": {}, **changes}
    return installation_from(tree, "file")


def test_systemd_takes_all_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        lacking(Missing("systemd-analyze is not installed: apt-get install systemd"))
    units = [path for path in write_units(installation(), tmp_path) if path.parent.name == "systemd"]
    assert len(units) == 2 + 7
    done = subprocess.run(
        [program, "verify", "--man=no", *map(str, units)], capture_output=True, text=True, timeout=60
    )
    ours = [line for line in done.stderr.splitlines() if "peloton" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_a_wrong_unit_is_found(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        lacking(Missing("systemd-analyze is not installed: apt-get install systemd"))
    unit = next(path for path in write_units(installation(), tmp_path) if path.name == "peloton-web.service")
    unit.write_text(unit.read_text().replace("bin/peloton-web", "bin/peloton-wab"))
    done = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert "peloton-wab" in done.stderr


def test_daemons_take_their_settings(tmp_path: Path) -> None:
    files = {path.name: path for path in write_units(installation(), tmp_path) if path.suffix == ".yaml"}
    assert set(files) == {f"{name}.yaml" for name in (*DAEMONS, "archiver", "web", "services", "storage")}
    from jobmgr.config import JobmgrSettings
    from placement.config import PlacementSettings

    settings, _ = parse_arguments(JobmgrSettings, "peloton-jobmgr", ["-c", str(files["jobmgr.yaml"])])
    assert (settings.http_port, settings.grpc_port) == (5292, 5392)
    engine, _ = parse_arguments(PlacementSettings, "peloton-placement", ["-c", str(files["services.yaml"])])
    assert (engine.http_port, engine.grpc_port) == (5303, 5403)
    assert yaml.safe_load(files["storage.yaml"].read_text())["storage"]["kind"] == "cassandra"
    assert files["jobmgr.yaml"].stat().st_mode & 0o777 == 0o600


def test_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match=r"version\.image: 'peloton:1' is not an environment or a wheel"
    ):
        list(write_units(installation(version={"image": "peloton:1"}), tmp_path))
