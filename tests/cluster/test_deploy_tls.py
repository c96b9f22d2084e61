"""`peloton deploy` with Cassandra and TLS between daemons."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from peloton.client.tls import Tls
from peloton.identity.certs import LOOPBACK, authority_in, issue, make_authority
from tests.cluster.deploying import Deployer, run_a_job
from tests.cluster.test_deploy import Calls, service
from tests.servers.cassandra import CassandraServer
from tests.servers.store import settings_for

pytestmark = pytest.mark.long


@pytest.mark.timeout(900)
def test_daemons_with_tls_and_cassandra_are_replaced_while_they_serve(
    bare: Cluster, cassandra: CassandraServer, tmp_path: Path
) -> None:
    now, secrets = datetime.datetime.now(datetime.UTC), tmp_path / "secrets"
    make_authority(secrets, "test", now)
    ca, made = authority_in(secrets).certificate, issue(secrets, "daemons", LOOPBACK, 1, now)
    storage = settings_for(cassandra, tmp_path, "deployed").model_dump(mode="json", exclude_defaults=True)
    deployer = Deployer(tmp_path, bare)
    deployer.tree |= {
        "secrets": {
            "password": {"file": storage["password_file"]},
            "ca": {"file": str(ca)},
            "certificate": {"file": str(made.certificate)},
            "key": {"file": str(made.key)},
        },
        "storage": {**storage, "kind": "cassandra", "password_file": "secret:password"},
        "settings": {
            "tls": {
                "ca_file": "secret:ca",
                "certificate_file": "secret:certificate",
                "key_file": "secret:key",
                "client_certificates": True,
            }
        },
        "health": {"enabled": True, "ca_file": str(ca)},
    }
    tls = Tls(str(ca), str(made.certificate), str(made.key))
    with deployer.deployed(deployer.file(), tls) as harness:
        assert "the schema of the store is up to date" in deployer.said
        run_a_job(harness)
        with Calls(harness, service(harness)) as calls:
            seconds, said = deployer.timed("apply", deployer.file(deployer.environment("second")))
        print(f"upgrade: {seconds:.1f} s, {calls.made} calls, load {os.getloadavg()[0]:.0f}")
        assert calls.made and not calls.failed
        assert cassandra.password not in said
