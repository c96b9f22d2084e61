"""A cluster with a web UI and something of everything: what the tests and the screenshots look at.

Its daemons ask callers who they are: `admin` may do everything, `viewer` may read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.credentials import ADMIN, VIEWER
from minicluster.layout import Layout
from minicluster.settings import Agent, ClusterSettings, DaemonSettings, Instances
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client.auth import BasicAuth, read_auth
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.service_job import ServiceJob

HOSTILE = (
    '<img src=x onerror="document.body.dataset.hacked=1"><script>document.body.dataset.hacked=1</script>'
)
"""What a page must show as text, in names, labels and log lines."""
HOSTILE_HOST = "<b onclick=alert(1)>host"
HOSTS = ("rack1-host1", "rack1-host2", "rack2-host1", HOSTILE_HOST)
FIRST_HOST = "rack1-host1"
SPARE = "rack1-host2"
"""A host that tests may take out of service."""
POOLS = ("shared", "batch_reserved", "stateless")
ENDED = (task_pb2.FAILED, task_pb2.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class World:
    """The cluster and the ids of its jobs."""

    harness: Harness
    url: str
    batch: str
    """Runs; its name, its labels and its log hold HTML. Its log grows."""
    failed: str
    waiting: str
    """Asks for more than there is. So does another job, `hopeless`, which a test stops."""
    service: ServiceJob
    users: Mapping[str, BasicAuth]
    """`admin` and `viewer`."""
    folder: Path
    """Where tests may put files that jobs look for."""


def settings() -> ClusterSettings:
    """A host of another rack, and one whose name and attribute hold HTML."""
    agents = [
        Agent(
            hostname=name,
            resources=f"cpus:4;mem:2048;disk:20000;ports:[{first}-{first + 999}]",
            attributes=f"rack:{name.partition('-')[0]};zone:<i>{number % 2}",
        )
        for number, (name, first) in enumerate(zip(HOSTS, range(31000, 35000, 1000), strict=True))
    ]
    return ClusterSettings(
        ports="free",
        secure=True,
        agents=tuple(agents),
        instances=Instances(web=1),
        settings=DaemonSettings(
            hostmgr={"enable_host_pool": True},
            # To check a password takes its time on a busy machine.
            web={"call_seconds": 12},
        ),
    )


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Bring the cluster up and fill it."""
    cluster = Cluster(folder / "cluster")
    try:
        cluster.up(settings())
        harness = Harness(cluster)
        try:
            yield _filled(harness, folder)
        finally:
            harness.client.close()
    finally:
        cluster.down()


@contextmanager
def temporary_world() -> Iterator[World]:
    """Bring it up in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="peloton-web-") as folder:
        Path(folder).chmod(0o711)  # tasks are users of their own, and some look for files that tests leave
        with world(Path(folder)) as made:
            yield made


def _users(layout: Layout) -> Mapping[str, BasicAuth]:
    found = {}
    for name in (ADMIN, VIEWER):
        auth = read_auth(layout.credentials_of(name))
        assert isinstance(auth, BasicAuth)
        found[name] = auth
    return found


def _filled(harness: Harness, folder: Path) -> World:
    _pools(harness)
    batch = harness.create(
        _named(
            harness.config(
                "i=0; while true; do echo 'line '$i' <b>bold</b>'; i=$((i+1)); sleep 0.5; done", 3
            ),
            HOSTILE,
        )
    )
    fails = harness.config(
        "echo about to fail; echo '<script>' >&2; mkdir d; echo 'what is inside' > 'd/<b>x'; exit 3", 2
    )
    # The files of its runs are read after an agent was started again: they would be gone with that agent.
    fails.defaultConfig.constraint.CopyFrom(_away_from(SPARE))
    failed = harness.create(_named(fails, "fails", retries=0))
    too_much = harness.config("true", 1)
    too_much.defaultConfig.resource.cpuLimit = 40
    waiting = harness.create(_named(too_much, "waits"))
    harness.create(_named(too_much, "hopeless"))
    service = ServiceJob(harness, 3, lambda spec: setattr(spec, "name", "shop"))
    url = f"https://{harness.cluster.web_addresses()[0]}"
    made = World(harness, url, batch, failed, waiting, service, _users(harness.cluster.layout), folder)
    for instance in range(3):
        harness.running(batch, instance)
    wait_for(lambda: all(t.runtime.state in ENDED for t in harness.tasks(failed).values()), 90)
    return made


def _pools(harness: Harness) -> None:
    """Put a host into each host pool; the one with HTML in its name is shared too."""
    hosts = harness.client.host_svc
    for pool in POOLS:
        hosts.CreateHostPool(host_svc_pb2.CreateHostPoolRequest(name=pool), timeout=30)
    for name, pool in zip(HOSTS, ("shared", "shared", "stateless", "shared"), strict=True):
        request = host_svc_pb2.ChangeHostPoolRequest(hostname=name, destinationPool=pool)
        hosts.ChangeHostPool(request, timeout=30)


def _away_from(hostname: str) -> task_pb2.Constraint:
    return task_pb2.Constraint(
        type=task_pb2.Constraint.LABEL_CONSTRAINT,
        labelConstraint=task_pb2.LabelConstraint(
            kind=task_pb2.LabelConstraint.HOST,
            condition=task_pb2.LabelConstraint.CONDITION_EQUAL,
            label=peloton_pb2.Label(key="hostname", value=hostname),
            requirement=0,
        ),
    )


def _named(config: job_pb2.JobConfig, name: str, retries: int = 3) -> job_pb2.JobConfig:
    config.name = name
    config.owner, config.owningTeam = "ada", "infra"
    config.labels.append(peloton_pb2.Label(key="<u>key", value=HOSTILE))
    config.defaultConfig.labels.append(peloton_pb2.Label(key="<u>key", value=HOSTILE))
    config.defaultConfig.restartPolicy.maxFailures = retries
    config.defaultConfig.command.CopyFrom(
        mesos_pb2.CommandInfo(shell=True, value=config.defaultConfig.command.value)
    )
    return config
