"""A client by the environment."""

from pathlib import Path

import pytest

from peloton.client.auth import BearerAuth
from peloton.client.environment import settings_from_environment
from peloton.client.tls import Tls
from peloton.errors import InvalidArgument


def test_the_variables_of_the_command_line_are_read() -> None:
    given = {"JOBMGR_URL": "one:5392", "ZK_SERVERS": "a:1\nb:2", "PELOTON_TOKEN": "abc", "RESMGR_URL": ""}
    found = settings_from_environment(given)
    assert (found["jm_url"], found["rm_url"], found["zk_servers"]) == ("one:5392", None, "a:1,b:2")
    assert found["auth"] == BearerAuth("abc")
    assert (found["tls"], found["zk_root"]) == (None, "/peloton")


def test_tls_needs_files_that_are_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    tls = settings_from_environment({"PELOTON_CA_FILE": missing})["tls"]
    assert tls == Tls(ca=missing)
    with pytest.raises(InvalidArgument, match=r"tls\.ca: .*is not a readable file"):
        tls.credentials()
    with pytest.raises(InvalidArgument, match=r"tls\.cert: .*together with tls\.key"):
        Tls(cert="x").credentials()
