"""A cluster on a busy day, and one on its first, beside the `world` of most tests.

The busy one has pools with reservations, batch jobs that wait, run, fail and end, services that serve, crash,
and are in an update, volumes, a daemon job, schedules, dependencies, GPUs, and hosts that are lost and down.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from minicluster.cluster import Cluster
from minicluster.settings import Agent, ClusterSettings, DaemonSettings, Instances
from tests.cluster.conftest import wait_for

HOSTS = {
    "ash-r1-01": "rack:r1;zone:ash;disk:ssd",
    "ash-r1-02": "rack:r1;zone:ash;disk:ssd",
    "ash-r2-01": "rack:r2;zone:ash;disk:hdd",
    "ash-r2-gpu-01": "rack:r2;zone:ash;gpu_model:a100",
    "dub-r7-01": "rack:r7;zone:dub;disk:ssd",
    "dub-r7-02": "rack:r7;zone:dub;disk:hdd",
    "dub-r7-03": "rack:r7;zone:dub;disk:hdd",
    "dub-r8-gpu-01": "rack:r8;zone:dub;gpu_model:h100",
}
"""Attributes by name."""
LOST, DOWN, SECOND_DOWN = "dub-r7-03", "dub-r7-02", "ash-r2-01"
POOLS = {
    "/shop": (8, 16, 0),
    "/shop/web": (5, 12, 0),
    "/shop/reports": (2, 8, 0),
    "/research": (6, 20, 8),
    "/research/training": (3, 16, 8),
    "/research/notebooks": (1, 4, 0),
    "/platform": (4, 8, 0),
}
"""Reservation and limit in cores, and GPUs; 512 MB of memory and 1 GB of disk go with each core."""
LONG = "nightly-aggregation-of-everything-that-every-region-has-sold-and-sent-back-since-the-last-report"
SECONDS = 120


@dataclass(slots=True)
class Lively:
    """The cluster, and the ids of its jobs by their names."""

    cluster: Cluster
    folder: Path
    jobs: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where its web UI answers."""
        return f"http://{self.cluster.web_addresses()[0]}"

    def run(self, *arguments: str) -> str:
        """Run a command of the command line; return what it prints."""
        command = [sys.executable, "-m", "peloton.cli", *arguments]
        environment = {**os.environ, **self.cluster.urls()}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def pool(self, path: str) -> str:
        """Return the id of a pool."""
        return self.run("respool", "get", path, "-q", "id.value").strip()

    def file(self, spec: Mapping[str, Any]) -> str:
        """Return the path of a file with a spec."""
        file = self.folder / f"{uuid.uuid4()}.yaml"
        file.write_text(yaml.safe_dump(dict(spec)))
        return str(file)

    def batch(self, pool: str, name: str, instances: int, command: str, **changes: Any) -> None:
        """Create a batch job. `changes`: keys of the job; those of `defaultConfig` are laid over its own."""
        task = {
            "resource": {"cpuLimit": 0.5, "memLimitMb": 64, "diskLimitMb": 16},
            "command": {"shell": True, "value": command},
            "restartPolicy": {"maxFailures": 1},
            **changes.pop("defaultConfig", {}),
        }
        spec = {
            "name": name,
            "type": "BATCH",
            "owner": changes.pop("owner", "ada"),
            "owningTeam": pool.split("/")[1],
            "instanceCount": instances,
            "labels": [{"key": "team", "value": pool.split("/")[1]}, {"key": "stage", "value": "production"}],
            "sla": {"preemptible": True},
            "defaultConfig": task,
            **changes,
        }
        self.jobs[name] = str(uuid.uuid4())
        self.run("job", "create", pool, self.file(spec), "--jobID", self.jobs[name])

    def service(self, pool: str, name: str, instances: int, command: str, **changes: Any) -> None:
        """Create a service."""
        self.jobs[name] = str(uuid.uuid4())
        spec = self.file(service_spec(pool, name, instances, command, **changes))
        self.run("job", "stateless", "create", pool, spec, "0", "--jobID", self.jobs[name])

    def await_state(self, name: str, *states: str) -> None:
        """Wait until a job is in one of these states."""
        seen = ""

        def reached() -> bool:
            nonlocal seen
            seen = self.run("job", "get", self.jobs[name], "-q", "jobInfo.runtime.state || state")
            return any(state in seen for state in states)

        wait_for(reached, SECONDS, lambda: f"{name}: {seen}")


def service_spec(
    pool: str,
    name: str,
    instances: int,
    command: str,
    container: Mapping[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Return the spec of a service. `container`: further keys of its container."""
    pod = changes.pop("defaultSpec", {})
    main = {
        "name": "main",
        "resource": {"cpuLimit": 0.25, "memLimitMb": 48, "diskLimitMb": 16},
        "entrypoint": {"value": command},
        **(container or {}),
    }
    return {
        "name": name,
        "owner": changes.pop("owner", "grace"),
        "owningTeam": pool.split("/")[1],
        "instanceCount": instances,
        "labels": [{"key": "team", "value": pool.split("/")[1]}, {"key": "tier", "value": "front"}],
        "sla": {"preemptible": False, "maximumUnavailableInstances": 1},
        "defaultSpec": {"mesosSpec": {"shell": True}, "containers": [main], **pod},
        **changes,
    }


def settings() -> ClusterSettings:
    """Two zones of two racks each; a GPU host in each zone."""
    agents = []
    for number, (name, attributes) in enumerate(HOSTS.items()):
        first = 31000 + 500 * number
        gpus = "gpus:4;" if "gpu" in name else ""
        amounts = f"cpus:4;mem:4096;disk:20000;{gpus}ports:[{first}-{first + 499}]"
        agents.append(Agent(hostname=name, resources=amounts, attributes=attributes))
    classes = [{"name": "urgent", "priority": 900}, {"name": "nightly", "priority": 10}]
    return ClusterSettings(
        ports="free",
        agents=tuple(agents),
        instances=Instances(web=1),
        settings=DaemonSettings(
            jobmgr={"priority_classes": classes},
            resmgr={"preemption": {"period": 20, "strikes": 3}},
        ),
    )


@contextmanager
def lively(folder: Path) -> Iterator[Lively]:
    """Bring the busy cluster up, and fill it."""
    with _up(folder, settings()) as made:
        _pools(made)
        _ended(made)
        _services(made)
        _training(made)
        _batch(made)
        _hosts(made)
        yield made


@contextmanager
def empty(folder: Path) -> Iterator[Lively]:
    """Bring a cluster up that nobody has used."""
    with _up(folder, ClusterSettings(ports="free", instances=Instances(web=1))) as made:
        yield made


@contextmanager
def temporary(kind: Callable[[Path], AbstractContextManager[Lively]]) -> Iterator[Lively]:
    """Bring one up in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="peloton-web-") as folder, kind(Path(folder)) as made:
        yield made


@contextmanager
def _up(folder: Path, wanted: ClusterSettings) -> Iterator[Lively]:
    cluster = Cluster(folder / "cluster")
    try:
        cluster.up(wanted)
        yield Lively(cluster, folder)
    finally:
        cluster.down()


def _pools(made: Lively) -> None:
    for path, (reservation, limit, gpus) in POOLS.items():
        amounts = {"cpu": 1, "memory": 512, "disk": 1000}
        resources: list[Mapping[str, Any]] = [
            {"kind": kind, "reservation": reservation * size, "limit": limit * size, "share": 1}
            for kind, size in amounts.items()
        ]
        resources.append({"kind": "gpu", "reservation": gpus // 2, "limit": gpus, "share": 1})
        spec = {"owningTeam": path.split("/")[1], "policy": "PriorityFIFO", "resources": resources}
        made.run("respool", "create", path, made.file({**spec, "description": f"Pool of {path}."}))


def _ended(made: Lively) -> None:
    """Jobs that succeed, fail and are killed."""
    made.batch("/shop/reports", "daily-report", 12, "echo report of $PELOTON_INSTANCE_ID")
    made.batch(
        "/shop/reports",
        "import-orders",
        6,
        "echo reading; echo 'orders.csv: line 118: not a number' >&2; [ $((PELOTON_INSTANCE_ID % 3)) != 0 ]",
        owner="alan",
    )
    made.batch("/shop/reports", "resize-images", 2, "kill -SEGV $$", owner="alan")
    made.batch("/research/notebooks", "notebook", 1, "sleep 6000", owner="mary")
    for name in ("daily-report", "import-orders", "resize-images"):
        made.await_state(name, "SUCCEEDED", "FAILED")
    made.run("job", "stop", made.jobs["notebook"], "-f")


def _services(made: Lively) -> None:
    serve = "echo listening; i=0; while true; do echo request $((i=i+1)); sleep 2; done"
    made.service("/shop/web", "checkout", 4, serve)
    made.service("/shop/web", "catalogue", 6, serve)
    made.service("/shop/web", "recommend", 3, "echo cannot read its model >&2; sleep 1; exit 2")
    made.service(
        "/shop/web", "journal", 2, serve, defaultSpec={"volume": {"containerPath": "data", "sizeMb": 100}}
    )
    unwell = {
        "liveness_check": {
            "enabled": True,
            "type": "HEALTH_CHECK_TYPE_COMMAND",
            "interval_secs": 2,
            "max_consecutive_failures": 900,
            "command_check": {"command": "exit 1"},
        }
    }
    made.service("/shop/web", "search", 2, serve, container=unwell)
    daemon = {"resource": {"cpuLimit": 0.1, "memLimitMb": 32, "diskLimitMb": 16}}
    made.batch(
        "/platform",
        "node-monitor",
        0,
        "while true; do date; sleep 5; done",
        type="DAEMON",
        sla={},
        defaultConfig=daemon,
    )
    made.await_state("catalogue", "RUNNING")
    slow = service_spec("/shop/web", "catalogue", 6, f"echo release 42; {serve}")
    made.run(
        "job", "stateless", "replace", made.jobs["catalogue"], made.file(slow), "2", "/shop/web", "--follow"
    )
    broken = service_spec("/shop/web", "catalogue", 8, "echo release 43 does not start >&2; sleep 2; exit 4")
    arguments = (made.file(broken), "1", "/shop/web", "--maxInstanceRetries", "50")
    made.run("job", "stateless", "replace", made.jobs["catalogue"], *arguments)
    made.run("job", "stateless", "restart", made.jobs["checkout"], "--batch-size", "1")


def _training(made: Lively) -> None:
    gpus = {"cpuLimit": 1, "memLimitMb": 128, "diskLimitMb": 16, "gpuLimit": 2}
    train = "i=0; while true; do echo step $((i=i+1)) loss 0.$((9999-i)); sleep 1; done"
    gang = {"preemptible": True, "minimumRunningInstances": 2}
    made.batch(
        "/research/training", "pretrain", 2, train, sla=gang, defaultConfig={"resource": gpus}, owner="mary"
    )
    large = {"preemptible": True, "minimumRunningInstances": 4, "priorityClass": "urgent"}
    made.batch(
        "/research/training", "finetune", 4, train, sla=large, defaultConfig={"resource": gpus}, owner="mary"
    )


def _batch(made: Lively) -> None:
    work = "sleep 6000"
    made.batch(
        "/research/training",
        "sweep",
        20,
        work,
        owner="mary",
        sla={"preemptible": True, "priorityClass": "nightly"},
    )
    made.batch("/shop/reports", LONG, 30, work)
    too_large = {"resource": {"cpuLimit": 64, "memLimitMb": 64, "diskLimitMb": 16}}
    made.batch("/research/notebooks", "too-large", 1, work, defaultConfig=too_large)
    label = {
        "kind": "HOST",
        "condition": "CONDITION_EQUAL",
        "label": {"key": "rack", "value": "r99"},
        "requirement": 1,
    }
    nowhere = {"constraint": {"type": "LABEL_CONSTRAINT", "labelConstraint": label}}
    made.batch("/research/notebooks", "no-such-rack", 3, work, defaultConfig=nowhere)
    made.batch(
        "/shop/reports", "heartbeat", 1, "echo $PELOTON_SCHEDULED_TIME", schedule={"cron": "* * * * *"}
    )
    yearly = {"cron": "0 4 * * 1", "time_zone": "Europe/Berlin", "overlap": "OVERLAP_QUEUE", "catch_up": 1}
    made.batch("/shop/reports", "weekly-invoices", 2, "echo invoices", schedule=yearly)
    made.batch("/shop/reports", "send-invoices", 1, "echo sent", dependsOn=[{"job": made.jobs[LONG]}])
    ports = [{"name": "http", "value": 0, "envName": "HTTP_PORT"}]
    burn = {"ports": ports, "resource": {"cpuLimit": 0.5, "memLimitMb": 512, "diskLimitMb": 64}}
    made.batch(
        "/platform",
        "index",
        2,
        "i=0; while true; do i=$((i+1)); [ $((i % 20000)) != 0 ] || sleep 0.4; done",
        defaultConfig=burn,
        owner="alan",
    )


def _hosts(made: Lively) -> None:
    """A host is lost, one is down, one drains as far as a service lets it."""
    names = list(HOSTS)
    made.cluster.stop([f"mesos-agent{names.index(LOST)}"])
    made.run("host", "maintenance", "start", DOWN, "-f")
    made.run("host", "maintenance", "start", SECOND_DOWN, "-f")
    for pool in ("shared", "batch_reserved", "stateless"):
        made.run("hostpool", "create", pool)
    for name in names[:2]:
        made.run("hostpool", "change", name, "stateless")
    wait_for(lambda: LOST in made.run("host", "query", "-s", "LOST"), SECONDS)
