"""A cluster that asks callers who they are: its daemons work, its users do what they may, nobody else."""

from __future__ import annotations

import json
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import httpx2
import pytest

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.components import DAEMONS
from minicluster.credentials import AGENT, CERTIFIED, CLIENT, MASTER, TASK, client_identity, https_context
from minicluster.settings import ClusterSettings, Instances
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.pod.svc import pod_svc_pb2
from peloton.client import LocalDiscovery, PelotonClient
from peloton.client.auth import BasicAuth, read_auth
from peloton.client.environment import settings_from_environment
from peloton.client.extensions import VARIABLE
from peloton.identity.methods import interface
from peloton.private.access import access_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2

from .conftest import Harness, wait_for

UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
HEALTH = "/grpc.health.v1.Health/Check"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Made by a process whose files are everybody's, in a folder that users of tasks can reach."""
    with TemporaryDirectory(prefix="peloton-secure-") as folder:
        Path(folder).chmod(0o711)
        found = Cluster(Path(folder) / "cluster")
        before = os.umask(0)
        try:
            found.up(ClusterSettings(ports="free", secure=True, instances=Instances(web=1)))
        finally:
            os.umask(before)
        try:
            yield found
        finally:
            found.down()


@pytest.fixture(scope="module")
def harness(cluster: Cluster) -> Iterator[Harness]:
    held = Harness(cluster)
    yield held
    held.client.close()


def client(cluster: Cluster, auth: BasicAuth | None) -> PelotonClient:
    tls = client_identity(cluster.directory)["tls"]
    return PelotonClient("test", discovery=LocalDiscovery(cluster.layout.membership), auth=auth, tls=tls)


def https(cluster: Cluster) -> ssl.SSLContext:
    context = https_context(cluster.layout)
    assert context is not None
    return context


def viewer(cluster: Cluster) -> BasicAuth:
    auth = read_auth(cluster.layout.credentials_of("viewer"))
    assert isinstance(auth, BasicAuth)
    return auth


def test_a_job_runs(harness: Harness) -> None:
    job = harness.create(harness.config("echo hello", instances=3))
    assert harness.ended(job).state == job_pb2.SUCCEEDED


@pytest.mark.parametrize("case", ["nobody", "wrong password"])
def test_nobody_else_calls_any_method_of_any_daemon(cluster: Cluster, case: str) -> None:
    metadata = () if case == "nobody" else (("username", "admin"), ("password", "admin"))
    methods = [f"/{service}/{method}" for service, methods in interface().items() for method in methods]
    methods = methods if case == "nobody" else methods[:5]  # a wrong password takes a while to check
    for part in cluster.components():
        if part.kind not in DAEMONS:
            continue
        credentials = client_identity(cluster.directory)["tls"].credentials()
        with grpc.secure_channel(part.addresses["grpc"], credentials) as channel:
            codes = {path: code(channel, path, metadata) for path in methods}
            assert {path: each for path, each in codes.items() if each is not UNAUTHENTICATED} == {}
            assert code(channel, HEALTH, metadata) is grpc.StatusCode.OK


def code(
    channel: grpc.Channel, path: str, metadata: tuple[tuple[str, str], ...], request: bytes = b""
) -> grpc.StatusCode:
    try:
        channel.unary_unary(path, bytes, bytes)(request, metadata=metadata, timeout=60)
    except grpc.RpcError as error:
        found: grpc.StatusCode = error.code()
        return found
    return grpc.StatusCode.OK


def test_a_viewer_reads_and_changes_nothing(cluster: Cluster, harness: Harness) -> None:
    with client(cluster, viewer(cluster)) as reads:
        assert reads.job_svc.Query(job_pb2.QueryRequest(), timeout=60)
        create = job_pb2.CreateRequest(config=harness.config("true"))
        enqueue = resmgrsvc_pb2.EnqueueGangsRequest()
        for call in (
            lambda: reads.job_svc.Create(create, timeout=60),
            lambda: reads.resmgr_svc.EnqueueGangs(enqueue, timeout=60),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() is DENIED, caught.value.details()
        caller = reads.hostmgr_access_svc.GetCaller(access_pb2.GetCallerRequest(), timeout=60)
        assert (caller.name, caller.kind, list(caller.roles)) == ("viewer", "user", ["viewer"])


def test_the_json_door_asks_as_the_daemons_do(cluster: Cluster) -> None:
    [address] = cluster.web_addresses()
    reads, creates = (
        f"https://{address}/api/peloton.api.v0.job.JobManager/{name}" for name in ("Query", "Create")
    )
    auth = (viewer(cluster).username, viewer(cluster).password)
    post = partial(httpx2.post, json={}, timeout=60, verify=https(cluster))
    assert post(reads, auth=auth).status_code == 200
    for given in (None, ("viewer", "wrong")):
        refused = post(reads, auth=given)
        assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHENTICATED")
        assert refused.headers["www-authenticate"].startswith("Basic ")
    denied = post(creates, auth=auth)
    assert (denied.status_code, denied.json()["code"]) == (403, "PERMISSION_DENIED")


def command_line(cluster: Cluster, user: str, *arguments: str) -> tuple[int, str]:
    """Run the command line as a user; its exit code and what it writes."""
    variables = {**cluster.urls(), "BASIC_AUTH_CONFIG": str(cluster.layout.credentials_of(user))}
    done = subprocess.run(
        [sys.executable, "-m", "peloton.cli", *arguments],
        env={**os.environ, **variables, "COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command_line_asks_what_it_may(cluster: Cluster) -> None:
    def ask(user: str, *arguments: str) -> tuple[int, str]:
        return command_line(cluster, user, "auth", *arguments)

    assert ask("admin", "can-i", "create", "jobs") == (0, "yes\n")
    refused, text = ask("viewer", "can-i", "drain", "hosts")
    assert refused == 1
    assert text.startswith(
        "no: user viewer may not call peloton.api.v0.host.svc.HostService/StartMaintenance:"
    )
    assert ask("viewer", "whoami") == (0, "user viewer, viewer\n")


def test_clients_find_what_a_local_cluster_needs(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    only = {VARIABLE: str(cluster.directory)}
    names = ("JOBMGR_URL", "RESMGR_URL", "HOSTMGR_URL", "ZK_SERVERS", "CLUSTER_NAME", "BASIC_AUTH_CONFIG")
    for name in (*names, "PELOTON_CA_FILE", "PELOTON_CERT_FILE", "PELOTON_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "peloton.cli", "auth", "whoami"],
        env={**os.environ, **only},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "user admin, admin\n"
    with PelotonClient("test", **settings_from_environment(only)) as found:
        caller = found.jobmgr_access_svc.GetCaller(access_pb2.GetCallerRequest(), timeout=60)
        assert (caller.name, caller.kind) == ("admin", "user")
    with PelotonClient("test", **settings_from_environment(cluster.urls())) as found:
        assert found.hostmgr_access_svc.GetCaller(access_pb2.GetCallerRequest(), timeout=60).name == "admin"


def test_agents_are_read_by_those_who_may(cluster: Cluster, harness: Harness) -> None:
    job = harness.create(harness.config("echo hello of $PELOTON_INSTANCE_ID; sleep 600"))
    harness.running(job)
    variables = {**os.environ, **cluster.urls()}

    def peloton(*arguments: str) -> str:
        command = [sys.executable, "-m", "peloton.cli", *arguments]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = harness.client.jobs.logs(job, 0, follow=True)
    assert next(lines) == b"hello of 0\n"
    assert peloton("task", "logs", job, "0") == "hello of 0\n"
    assert peloton("task", "exec", job, "0", "echo", "beside") == "beside\n"
    request = task_pb2.BrowseSandboxRequest(jobId=peloton_pb2.JobID(value=job), instanceId=0)
    found = harness.client.task_svc.BrowseSandbox(request, timeout=60)
    path = next(path for path in found.paths if path.endswith("/stdout"))
    auth = (viewer(cluster).username, viewer(cluster).password)
    agent = f"{found.hostname}:{found.port}"
    assert httpx2.get(f"https://{agent}/health", timeout=60, verify=https(cluster)).status_code == 200
    for page in (f"files/download?path={path}", "state", "api/v1"):
        refused = httpx2.get(f"https://{agent}/{page}", timeout=60, verify=https(cluster), auth=auth)
        assert refused.status_code == 401, page
    streamed = {"content-type": "application/recordio", "message-content-type": "application/json"}
    posted = httpx2.post(
        f"https://{agent}/api/v1", content=b"2\n{}", headers=streamed, timeout=60, verify=https(cluster)
    )
    assert posted.status_code == 401
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"http://{agent}/health", timeout=60)
    stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(stop, timeout=60)
    harness.ended(job)


def test_the_master_speaks_with_those_who_have_a_certificate(cluster: Cluster) -> None:
    (master,) = (part.addresses["http"] for part in cluster.components() if part.kind == "mesos-master")
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"http://{master}/health", timeout=60)
    context = https(cluster)
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"https://{master}/health", timeout=60, verify=context)
    context.load_cert_chain(*cluster.layout.certificate_of(CLIENT))
    assert httpx2.get(f"https://{master}/health", timeout=60, verify=context).status_code == 200


def test_files_are_their_owners_only_whatever_the_umask(cluster: Cluster, harness: Harness) -> None:
    """Others pass through folders to sandboxes where tasks may be theirs: where the agents are root's."""
    job = harness.create(harness.config("echo x > made; mkdir folder; sleep 600"))
    harness.running(job)
    root = cluster.directory
    sandboxes = [
        each
        for each in root.glob("mesos/*/slaves/*/frameworks/*/executors/*/runs/*")
        if not each.is_symlink()
    ]
    assert any(job in str(each) for each in sandboxes)
    assert {stat.S_IMODE(each.stat().st_mode) for each in sandboxes} == {0o700}
    within = {path for each in sandboxes for path in each.rglob("*")}
    passed = {root, root / "mesos", *root.glob("mesos/mesos-agent*"), *root.glob("mesos/*/meta")}
    passed |= {*root.glob("mesos/*/meta/secrets"), *root.glob("mesos/*/meta/secrets/*")}
    passed |= {path for each in root.glob("mesos/*/slaves") for path in (each, *each.rglob("*"))} - {
        *sandboxes
    }
    open_ = {}
    for path in (root, *root.rglob("*")):
        if path.is_symlink() or path in within or path.suffix == ".crt":
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077 and not (os.geteuid() == 0 and path in passed and mode == 0o711):
            open_[str(path)] = oct(mode)
    assert open_ == {}
    stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(stop, timeout=60)
    harness.ended(job)


@pytest.mark.skipif(os.geteuid() != 0, reason="only an agent of root runs tasks as other users")
def test_a_task_of_another_user_has_what_it_needs(cluster: Cluster, harness: Harness) -> None:
    """Its sandbox, its secret, what was fetched for it, and commands beside it as the same user."""
    fetched = cluster.directory.parent / "fetched"
    fetched.write_text("fetched\n")
    command = 'id -un; cat fetched "$MESOS_SANDBOX/etc/key"; touch "$MESOS_SANDBOX/own"; umask; sleep 600'
    config = harness.config(command, type=job_pb2.SERVICE)
    config.defaultConfig.command.user = "nobody"
    config.defaultConfig.command.uris.add(value=str(fetched))
    config.defaultConfig.container.type = mesos_pb2.ContainerInfo.MESOS
    check = config.defaultConfig.healthCheck
    check.initialIntervalSecs, check.intervalSecs = 1, 1
    check.enabled, check.type = True, task_pb2.HealthCheckConfig.COMMAND
    check.commandCheck.command = 'test "$(id -un)" = nobody && test -O own'
    request = job_pb2.CreateRequest(config=config)
    request.secrets.add(path="/etc/key").value.data = b"secret"
    answer = harness.client.job_svc.Create(request, timeout=60)
    assert not answer.HasField("error"), answer.error
    job = answer.jobId.value
    harness.running(job)
    wait_for(
        lambda: harness.tasks(job)[0].runtime.healthy == task_pb2.HEALTHY, 60, lambda: str(harness.tasks(job))
    )
    code, text = command_line(cluster, "admin", "task", "logs", job, "0")
    assert (code, text) == (0, "nobody\nfetched\nsecret0022\n")
    words = ("task", "exec", job, "0", "sh", "-c", "id -un; touch beside")
    assert command_line(cluster, "admin", *words) == (0, "nobody\n")
    stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(stop, timeout=60)
    harness.ended(job)


def test_files_with_secrets_are_their_owners_only(cluster: Cluster) -> None:
    folder = cluster.layout.auth
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == dict.fromkeys(
        ("secret-keys", "task-keys", "users.yaml", "admin.yaml", "viewer.yaml"), 0o600
    )
    assert stat.S_IMODE(cluster.layout.certificates.stat().st_mode) == 0o700
    keys = {
        file.stem: stat.S_IMODE(file.stat().st_mode) for file in cluster.layout.certificates.glob("*.key")
    }
    assert keys == dict.fromkeys((*CERTIFIED, CLIENT, TASK, MASTER, AGENT, "web", "ca"), 0o600)


def test_what_users_change_is_written_down(cluster: Cluster, harness: Harness) -> None:
    job = harness.create(harness.config("true"))
    harness.ended(job)
    lines = [json.loads(line) for line in cluster.layout.audit.read_text().splitlines()]
    (line,) = [each for each in lines if each.get("object", {}).get("job") == job]
    assert (line["principal"], line["code"]) == ("admin", "OK")
    assert line["method"] == "peloton.api.v0.job.JobManager/Create"
    assert stat.S_IMODE(cluster.layout.audit.stat().st_mode) == 0o600
    assert {each["kind"] for each in lines} <= {"user", "nobody"}


def test_histories_say_who_did_it(cluster: Cluster, harness: Harness) -> None:
    job = harness.create(harness.config("sleep 600", instances=2))
    for instance in (0, 1):
        harness.running(job, instance)
    pool = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=harness.pool))
    found = harness.client.respool_svc.GetResourcePool(pool, timeout=60)
    assert found.poolinfo.config.changeLog.updatedBy == "admin"
    whole = harness.client.job_svc.Get(job_pb2.GetRequest(id=peloton_pb2.JobID(value=job)), timeout=60)
    assert whole.jobInfo.config.changeLog.updatedBy == "admin"

    assert command_line(cluster, "admin", "task", "stop", job, "-r", "0:1")[0] == 0
    await_event(harness, job, 0, "KILLED", "stopped by admin; ")
    pod = pod_svc_pb2.GetPodEventsRequest(pod_name=v1alpha.PodName(value=f"{job}-0"))
    events = harness.client.pod_svc.GetPodEvents(pod, timeout=60).events
    assert any(each.message.startswith("stopped by admin; ") for each in events), events
    for words in (["task", "events", job, "0"], ["task", "why", job, "0"], ["job", "why", job]):
        code, text = command_line(cluster, "admin", *words)
        assert code == 0, text
        assert "stopped by admin" in text, text

    host = harness.running(job, 1).host
    start = host_svc_pb2.StartMaintenanceRequest(hostname=host)
    harness.client.host_svc.StartMaintenance(start, timeout=60)
    await_event(harness, job, 1, "KILLED", f"maintenance of {host}, begun by admin at ")


def await_event(harness: Harness, job: str, instance: int, state: str, message: str) -> None:
    request = task_pb2.GetPodEventsRequest(jobId=peloton_pb2.JobID(value=job), instanceId=instance)

    def told() -> list[tuple[str, str]]:
        events = harness.client.task_svc.GetPodEvents(request, timeout=60).result
        return [(each.actualState, each.message) for each in events]

    wait_for(
        lambda: any(at == state and text.startswith(message) for at, text in told()),
        90,
        lambda: str(told()),
    )
