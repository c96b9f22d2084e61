"""A cluster that asks who calls, and what clients need to say it, right and wrong.

All daemons ask for certificates; the job manager asks for bearer tokens, the others and the Mesos agents for
passwords.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from minicluster.credentials import CERTIFIED
from minicluster.settings import ClusterSettings, DaemonSettings, Instances
from minicluster.temporary import temporary_cluster
from peloton.api.v0.job import job_pb2
from peloton.client import PelotonClient
from peloton.client.environment import settings_from_environment
from peloton.identity.certs import LOOPBACK, issue, make_authority
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.test_task_tokens import token_of

ISSUER, AUDIENCE = "https://login.example.com", "peloton"
GROUPS = {
    "groups": [{"group": "makers", "role": "maker"}, {"group": "readers", "role": "reader"}],
    "certificates": [{"name": name, "daemon": name} for name in CERTIFIED],
    "roles": [{"role": "maker", "accept": ["*"]}, {"role": "reader", "accept": ["*:Get*"]}],
}


@contextmanager
def secured_cluster(folder: Path) -> Iterator[Mapping[str, str]]:
    """Give the environment by which clients find the cluster, and by which they are let in.

    In the folder PELOTON_TEST_STRANGERS are certificates of another authority, and tokens that are wrong.
    The job PELOTON_TEST_JOB has written hello; PELOTON_TEST_TASK_JOB runs, and its task has the token
    PELOTON_TEST_TASK_TOKEN.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    strangers = _strangers(folder, key)
    oidc = {"type": "OIDC", "config_file": str(_groups(folder)), "oidc": _provider(folder, key)}
    settings = ClusterSettings(
        ports="free",
        secure=True,
        instances=Instances(placement=(("batch",),)),
        settings=DaemonSettings(jobmgr={"auth": oidc}),
    )
    with temporary_cluster(settings) as cluster:
        right = {"PELOTON_TOKEN": token(key), "PELOTON_TEST_STRANGERS": str(strangers)}
        environment = {**cluster.urls(), **right}
        harness = Harness(cluster)
        with harness.client, PelotonClient("tests", **settings_from_environment(environment)) as client:
            found = {"PELOTON_TEST_JOB": _ended_job(harness, client), **_task_with_token(harness, client)}
        yield {**environment, **found}


def _task_with_token(harness: Harness, client: PelotonClient) -> Mapping[str, str]:
    config = harness.config("sleep 3600")
    config.defaultConfig.workload.token = True
    job = client.jobs.create("", config)
    wait_for(lambda: client.jobs.get(job).runtime.taskStats.get("RUNNING") == 1, 180)
    return {"PELOTON_TEST_TASK_JOB": job, "PELOTON_TEST_TASK_TOKEN": token_of(harness.cluster, job)}


def _ended_job(harness: Harness, client: PelotonClient) -> str:
    job = client.jobs.create("", harness.config("echo hello"))
    assert client.jobs.wait(job, 180).state == job_pb2.SUCCEEDED
    return job


def _strangers(folder: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    now = datetime.datetime.now(datetime.UTC)
    strangers = folder / "strangers"
    make_authority(strangers, "theirs", now)
    issue(strangers, "stranger", LOOPBACK, 1, now)
    wrong = {
        "forged": token(ec.generate_private_key(ec.SECP256R1())),
        "expired": token(key, exp=int(time.time()) - 3600),
        "elsewhere": token(key, aud="another"),
        "reader": token(key, groups=["readers"]),
        "garbage": "garbage",
    }
    for name, text in wrong.items():
        (strangers / f"{name}.token").write_text(text)
    return strangers


def token(key: ec.EllipticCurvePrivateKey, **claims: Any) -> str:
    """Return a token of a user who may do everything, unless the claims say otherwise."""
    content = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": int(time.time()) + 24 * 3600,
        "groups": ["makers"],
        **claims,
    }
    return jwt.encode(content, key, "ES256", headers={"kid": "one"})


def _provider(folder: Path, key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    published = {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "one", "use": "sig"}
    file = folder / "keys.json"
    file.write_text(json.dumps({"keys": [published]}))
    return {"issuer": ISSUER, "audience": AUDIENCE, "jwks_file": str(file)}


def _groups(folder: Path) -> Path:
    file = folder / "groups.yaml"
    file.touch(0o600)
    file.write_text(json.dumps(GROUPS))  # JSON is YAML
    return file
