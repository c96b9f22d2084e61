"""The commands for services on a whole cluster: the walk of docs/user-guide.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peloton.cli.__main__ import main

from .cli_walk import Walk
from .conftest import Harness, wait_for

SPEC = Path(__file__).resolve().parents[2] / "examples" / "web_service.yaml"
SECONDS = 60
Peloton = Callable[..., str]


@pytest.fixture
def peloton(harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Peloton:
    """Runs a command; returns its output, or its failure where it has none."""
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def run(*arguments: str) -> str:
        capfd.readouterr()
        code = main(list(arguments))
        out, err = capfd.readouterr()
        assert (code == 0) == (not err), (code, out, err)
        return out or err

    return run


class Service:
    """The job that the walk creates."""

    def __init__(self, peloton: Peloton, created: str) -> None:
        self.peloton, self.id = peloton, created.split()[1]

    def summary(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.peloton("job", "stateless", "get", self.id, "--summaryonly", "-j")
        )
        status: dict[str, Any] = answer["summary"]["status"]
        return status

    @property
    def version(self) -> str:
        return str(self.summary()["version"]["value"])

    def await_workflow(self, state: str, **pods: int) -> None:
        wanted = {f"POD_STATE_{name}": count for name, count in pods.items()}

        def reached() -> bool:
            status = self.summary()
            stats = {name: count for name, count in status["pod_stats"].items() if count}
            last = status.get("workflow_status", {}).get("state", "none").removeprefix("WORKFLOW_STATE_")
            return last == state and stats == wanted

        wait_for(reached, SECONDS, lambda: str(self.summary()))

    def await_output(self, instance: int, text: str) -> None:
        def output() -> str:
            return self.peloton("pod", "logs", f"{self.id}-{instance}")

        wait_for(lambda: output() == text, SECONDS, output)


def test_the_walk_of_the_user_guide(peloton: Peloton, tmp_path: Path) -> None:
    service = Service(peloton, peloton("job", "stateless", "create", "/test", str(SPEC), "2"))
    service.await_workflow("SUCCEEDED", RUNNING=3)
    rows = peloton("job", "stateless", "list-pods", service.id).splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [
        [str(i), f"{service.id}-{i}", "RUNNING"] for i in range(3)
    ]
    service.await_output(1, "version 1 of instance 1\n")

    second = tmp_path / "web2.yaml"
    second.write_text(SPEC.read_text().replace("version 1", "version 2"))
    first_version = service.version
    diff = peloton("job", "stateless", "replace-diff", service.id, str(second), "/test", first_version)
    kinds = [line for line in diff.splitlines() if not line.startswith(" ")]
    assert kinds == ["added: none", "removed: none", "updated: 0-2", "unchanged: none"]
    assert '  0-2: command.value: echo "version 1' in diff and '→ echo "version 2' in diff
    peloton("job", "stateless", "replace", service.id, str(second), "1", "/test", first_version)
    service.await_workflow("SUCCEEDED", RUNNING=3)
    service.await_output(2, "version 2 of instance 2\n")
    stale = peloton("job", "stateless", "stop", service.id, first_version)
    assert f"{first_version} is not its present entity version" in stale

    peloton("job", "stateless", "rollback", service.id, "0", first_version, "--start-paused")
    service.await_workflow("PAUSED", RUNNING=3)
    refused = peloton("job", "stateless", "replace", service.id, str(second), "0", "/test")
    assert "an update is under way (PAUSED, 0 instances done, 3 to go): --override replaces it" in refused
    peloton("job", "stateless", "workflow", "resume", service.id, service.version)
    service.await_workflow("SUCCEEDED", RUNNING=3)
    service.await_output(0, "version 1 of instance 0\n")
    states = peloton("job", "stateless", "list-updates", service.id).splitlines()[1:]
    assert [row.split()[:2] for row in states] == [["UPDATE", "SUCCEEDED"]] * 3

    peloton("job", "stateless", "restart", service.id, service.version, "-r", "1:2")
    service.await_workflow("SUCCEEDED", RUNNING=3)
    events = peloton("job", "stateless", "workflow", "events", service.id, "1").splitlines()
    assert events[1].split()[1:] == ["RESTART", "SUCCEEDED"]

    peloton("pod", "stop", f"{service.id}-2")
    service.await_workflow("SUCCEEDED", RUNNING=2, KILLED=1)
    assert peloton("pod", "query", service.id, "-s", "killed").splitlines()[1].split()[0] == "2"
    peloton("job", "stateless", "stop", service.id, service.version)
    service.await_workflow("SUCCEEDED", KILLED=3)
    wait_for(lambda: service.summary()["state"] == "JOB_STATE_KILLED", SECONDS)
    peloton("job", "stateless", "delete", service.id, service.version)
    wait_for(lambda: "(NOT_FOUND)" in peloton("job", "stateless", "get", service.id), SECONDS)


V0 = """
name: web0
type: SERVICE
owningTeam: infra
instanceCount: 2
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 32, diskLimitMb: 8}
  command: {shell: true, value: 'sleep 600'}
"""


def test_updates_and_rolling_commands_of_the_v0_api(peloton: Peloton, tmp_path: Path) -> None:
    first, second = tmp_path / "web.yaml", tmp_path / "web2.yaml"
    first.write_text(V0)
    second.write_text(V0.replace("sleep 600", "sleep 700").replace("Count: 2", "Count: 3"))
    service = Service(peloton, peloton("job", "create", "/test", str(first)))
    service.await_workflow("none", RUNNING=2)

    created = peloton("update", "create", service.id, str(second), "1", "/test", "--start-paused")
    update = created.split()[-1]
    service.await_workflow("PAUSED", RUNNING=2)
    refused = peloton("update", "create", service.id, str(second), "1", "/test")
    assert f"update {update} is under way (PAUSED): --override replaces it" in refused
    assert "state: PAUSED" in peloton("update", "get", update)
    assert "instancesAdded:\n- 2\n" in peloton("update", "cache", update)
    peloton("update", "resume", update)
    service.await_workflow("SUCCEEDED", RUNNING=3)
    assert peloton("update", "list", service.id).splitlines()[1].split()[:3] == [update, "SUCCEEDED", "3"]
    assert "is SUCCEEDED" in peloton("update", "abort", update)

    peloton("job", "rolling-restart", service.id, "2")
    service.await_workflow("SUCCEEDED", RUNNING=3)
    assert json.loads(peloton("pod", "get", f"{service.id}-2", "-j"))["current"]["status"]["pod_id"] == {
        "value": f"{service.id}-2-2"
    }
    peloton("job", "rolling-stop", service.id, "1", "-r", "0:2")
    service.await_workflow("SUCCEEDED", RUNNING=1, KILLED=2)
    peloton("job", "rolling-start", service.id, "1", "-r", "1:2")
    service.await_workflow("SUCCEEDED", RUNNING=2, KILLED=1)
    peloton("job", "stateless", "delete", service.id, service.version, "-f")


def test_the_walk_of_the_user_guide_with_a_daemon_job(
    harness: Harness, peloton: Peloton, tmp_path: Path
) -> None:
    spec = SPEC.with_name("daemon_job.yaml")
    job = Service(peloton, peloton("job", "create", "/test", str(spec)))

    def runs_on(count: int) -> bool:
        stats: dict[str, int] = job.summary()["pod_stats"]
        return stats == {"POD_STATE_RUNNING": count}

    wait_for(lambda: runs_on(3), SECONDS, lambda: str(job.summary()))
    assert len(peloton("task", "list", job.id).splitlines()) == 4, "a head, and a row for each host"
    harness.cluster.stop(["mesos-agent2"])
    wait_for(lambda: runs_on(2), SECONDS, lambda: str(job.summary()))
    harness.cluster.start(["mesos-agent2"])
    wait_for(lambda: runs_on(3), SECONDS, lambda: str(job.summary()))
    second = tmp_path / "daemon2.yaml"
    second.write_text(spec.read_text().replace("version 1", "version 2"))
    peloton("update", "create", job.id, str(second), "1", "/test")
    job.await_workflow("SUCCEEDED", RUNNING=3)
    job.await_output(0, "version 2 watches this host\n")
    assert "SUCCEEDED" in peloton("update", "list", job.id)
    peloton("job", "stateless", "restart", job.id, job.version)
    job.await_workflow("SUCCEEDED", RUNNING=3)
    peloton("job", "stateless", "stop", job.id, job.version)
    wait_for(lambda: job.summary()["state"] == "JOB_STATE_KILLED", SECONDS, lambda: str(job.summary()))
    peloton("job", "stateless", "start", job.id, job.version)
    wait_for(lambda: runs_on(3), SECONDS, lambda: str(job.summary()))
    peloton("job", "stateless", "delete", job.id, job.version, "-f")
    wait_for(lambda: "(NOT_FOUND)" in peloton("job", "stateless", "get", job.id), SECONDS)


def test_a_daemon_job_that_no_host_matches_is_warned_of(
    peloton: Peloton, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "nowhere.yaml"
    spec.write_text(
        SPEC.with_name("daemon_job.yaml").read_text()
        + "  constraint: {type: LABEL_CONSTRAINT, labelConstraint: {kind: HOST, condition: CONDITION_EQUAL, "
        "label: {key: rack, value: none}, requirement: 1}}\n"
    )
    peloton("respool", "dump")  # sets the environment
    assert main(["job", "create", "/test", str(spec)]) == 0
    out, err = capfd.readouterr()
    job = out.split()[1]
    assert err == (
        "warning: no host takes an instance now: no host has rack=none: 3 hosts without rack; "
        "waits for a host with rack=none; "
        "each host that does gets one as it comes\n"
    )
    rows = peloton("job", "stateless", "list-pods", job).splitlines()
    assert len(rows) == 1, "a head and no pods"
    why = peloton("job", "why", job)
    assert why.endswith("none created; no host matches its constraint, or the hosts are not known yet\n")


BATCH = """
name: walked
type: BATCH
owningTeam: walkers
instanceCount: 2
labels: [{key: team, value: walk}]
sla: {preemptible: true, maximumRunningInstances: 2}
defaultConfig:
  resource: {cpuLimit: 0.1, memLimitMb: 32, diskLimitMb: 8}
  command: {shell: true, value: 'COMMAND'}
"""
POOL = """
owningTeam: walkers
policy: PriorityFIFO
resources:
  - {kind: cpu, reservation: 0, limit: 4, share: 1}
  - {kind: memory, reservation: 0, limit: 1024, share: 1}
  - {kind: disk, reservation: 0, limit: 1024, share: 1}
  - {kind: gpu, reservation: 0, limit: 0, share: 1}
"""
PAGE = "-n 5 -o 0 -a desc"
QUERY = f"-l team=walk -r /walk -k walked --owner walkers --name walk* -d 1 {PAGE} -p creation_time -q 50"
UPDATE = (
    "-o --maxInstanceRetries 1 --maxTolerableInstanceFailures 1 --rollbackOnFailure --start-paused "
    "--opaque-data x --in-place --start-pods"
)
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def walk(peloton: Peloton, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Walk:
    monkeypatch.setenv("VISUAL", "true")
    return Walk(capfd, monkeypatch)


class Files:
    """Specs by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, text: str) -> str:
        file = self._folder / f"{name}.yaml"
        file.write_text(text)
        return str(file)


def test_every_command_and_flag(walk: Walk, harness: Harness, tmp_path: Path) -> None:
    """What is new to the cluster is called in an order that needs few waits."""
    files = Files(tmp_path)
    walk_pools_and_offline_commands(walk, files)
    walk_batch_jobs(walk, files)
    walk_services(walk, files)
    walk_old_updates(walk, files)
    walk_hosts(walk, harness)
    walk_daemons(walk)
    walk("respool delete /walk", says="deleted")
    assert walk.missing(BESIDES) == []


BESIDES: dict[tuple[str, ...], str] = {
    ("auth", "whoami"): "tests/cluster/test_secure.py",
    ("auth", "can-i"): "tests/cluster/test_secure.py",
    ("auth", "hash"): "tests/cluster/test_secure.py",
    ("run",): "tests/cluster/test_run.py",
    ("simulate",): "tests/unit/simulator/test_simulate.py",
    ("job", "move"): "tests/cluster/test_clusters.py, tests/unit/cli/test_job_move.py",
    ("job", "members"): "tests/unit/cli/test_members.py, tests/cluster/test_gangs.py",
    ("mcp",): "tests/cluster/test_mcp.py",
    ("spark", "submit"): "tests/unit/cli/test_spark_submit.py, tests/workloads/check_spark.py",
    ("spark", "archive"): "tests/unit/cli/test_spark_submit.py",
    ("certs", "ca"): "tests/unit/identity/test_tls.py",
    ("certs", "issue"): "tests/unit/identity/test_tls.py",
}
"""Commands that need another cluster, or more than a line, and where they are tested."""


def walk_pools_and_offline_commands(walk: Walk, files: Files) -> None:
    pool, batch = files("pool", POOL), files("batch", BATCH)
    walk("job validate --kind job", batch, says="a valid job spec")
    walk("job validate", files("bad", BATCH.replace("owningTeam", "owningTaem")), code=1, says="bad.yaml:4: ")
    assert json.loads(walk("job schema service"))["title"]
    walk("completion bash", says="complete")
    walk("respool create -f /walk", pool, says="Resource pool /walk created")
    walk("respool create /walk", pool, code=1, says="/walk")
    walk("respool update -f /walk", files("pool2", POOL.replace("limit: 4", "limit: 6")), says="updated")
    walk("respool list", says="/walk")
    walk("respool tree /walk", says="/walk")
    walk("respool get /walk", says="owningTeam: walkers")
    walk("respool edit -f /walk", says="is as it was")
    pools = json.loads(walk("respool dump --format json"))
    assert [each["path"]["value"] for each in pools].count("/walk") == 1


def walk_batch_jobs(walk: Walk, files: Files) -> None:
    quick = files("quick", BATCH.replace("COMMAND", "echo said; echo wrong >&2"))
    slow = files("slow", BATCH.replace("COMMAND", "echo begun; sleep 600"))
    failing = files("failing", BATCH.replace("COMMAND", "exit 3"))
    secret = ("--secret-path", "/etc/secret", "--secret-data", f"@{quick}")
    wait_for(lambda: "2 would be placed now" in walk("job create /walk", slow, "--dry-run"), SECONDS)
    walk("job create /nowhere", slow, "--dry-run", code=1, says="no resource pool")
    walk("plan --pool /walk", slow, says="2 would be placed now")
    walk("job create /walk", slow, *secret, code=1, says="secret")
    walk("job create /walk", failing, "--follow", code=4, says="FAILED")
    done, job = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))
    walk("job create /walk", quick, "--follow", "-i", done, says="SUCCEEDED")
    walk("job create /walk", slow, "-i", job, "-o", "name", says=job)
    walk("job create /walk", slow, "-i", job, code=1, says=job)
    wait_for(lambda: "RUNNING: 2" in walk(f"job status {job}"), SECONDS)
    walk_looks(walk, job, done)
    walk_instances(walk, job)
    walk(f"job update {job}", files("more", (Path(slow).read_text()).replace("Count: 2", "Count: 3")))
    walk(f"job update {job}", slow, *secret, code=1)
    walk(f"job release {job} 2", says="released 1 instance")
    walk(f"job release {job} --down-to 1 --resourceVersion 99", code=1, says="99")
    walk(f"job suspend {job}", says="is suspended")
    walk(f"job resume {job}", says="goes on")
    walk("job stop --owner walkers -l team=walk -f -n 5 -q 50 --progress", says=job)
    walk("job delete --owner walkers -l team=walk -f -n 5 -q 50", says=f"Job {done} deleted")
    walk_schedules(walk, files)
    walk("usage --by owner --since 2h --until 2099-01-01 --every hour --pool /walk", says="Owner")
    walk("usage --by pool --since 7d -o csv", says="held_core_seconds")


def walk_schedules(walk: Walk, files: Files) -> None:
    yearly = BATCH.replace("name: walked", "name: nightly") + "schedule: {cron: '0 3 1 1 *'}\n"
    spec = files("nightly", yearly)
    walk("job create /walk", spec, says="created")
    walk("schedule list --pool /walk -n 5", says="0 3 1 1 * (UTC)")
    walk("schedule pause nightly", says="is paused")
    walk("schedule list", says="paused since")
    walk("schedule resume nightly", says="next run at")
    walk("schedule runs nightly")
    walk("job stop nightly")


def walk_looks(walk: Walk, job: str, done: str) -> None:
    assert json.loads(walk(f"job get {job} -j"))["jobInfo"]["config"]["name"] == "walked"
    walk(f"job why {job}", says="RUNNING")
    walk(f"job why {job} --no-estimate", says="RUNNING")
    walk(f"job cache {job}", says="RUNNING")
    walk(f"job refresh {job}", says="refreshed")
    walk("job active-list", says=job)
    walk("job priority-classes", says="CLASS")
    walk(f"job query {QUERY} -s running -o name".replace("-o name", "--output name"), says=job)
    walk("job query -s nonsense", code=2, says="RUNNING")
    walk("job query --crash-looping")
    walk("status", says="hostmgr")
    for view in ("pools", "jobs", "hosts"):
        walk(f"top {view} -n 1 --interval 1ms", says="%" if view == "hosts" else "walk")
    walk(f"job usage {job} -i 0", says="Memory")
    walk(f"top tasks --job {job} -n 1", says="CPU")
    assert sorted(walk(f"logs {done} -f -r 0:2").split("\n")) == ["", "0 | said", "1 | said"]
    walk("logs -l team=walk --filename stdout -r 0", says="begun")
    walk(f"volume list {job}", says="Size (MB)")
    walk(f"volume delete {NOBODY}", code=1, says=NOBODY)
    walk(f"task logs {done} 0 1 -f stderr -F", says="wrong")
    walk(f"pod logs {done}-0 -f stdout -p 1", says="said")
    walk(f"pod delete-events {done}-0 1", says="deleted")


def walk_instances(walk: Walk, job: str) -> None:
    pod = f"{job}-0"
    walk(f"task list {job} -r 0:1", says="RUNNING")
    walk(f"task get {job} 0", says="RUNNING")
    walk(f"task get {job} 9", code=1)
    walk(f"task query {job} -s running --names walked-0,x --hosts a,b -n 5 -o 0 -p instance_id -a asc")
    walk(f"pod query {job} -s running --names {pod} --hosts a,b -n 5 -o 0 -p instance_id -a asc")
    for command in (f"task events {job} 0 -r 1 -l 5", f"pod events {job} 0 -r 1 -l 5"):
        walk(command, says="RUNNING")
    walk(f"pod events-v1alpha {pod} -p 1", says="RUNNING")
    walk(f"task cache {job} 0", says="RUNNING")
    walk(f"pod cache {pod}", says="RUNNING")
    walk(f"task refresh {job} -r 0:1", says="refreshed")
    walk(f"pod refresh {pod}", says="refreshed")
    walk(f"task why {job} 0", says="RUNNING")
    walk(f"task exec {job} 0", "echo $MESOS_TASK_ID; exit 5", code=5, says=f"{job}-0-1")
    walk(f"task exec -t -i {job} 0 tty", says="/dev/")
    walk(f"pod get {pod} --statusonly --limit 1", says="POD_STATE_RUNNING")
    walk(f"task restart {job} -r 0:1", says="restarted")
    wait_for(
        lambda: "run 2: RUNNING" in walk(f"task why {job} 0"), SECONDS, lambda: walk(f"task why {job} 0")
    )
    walk(f"pod restart --check-sla {pod}", says="restarted")
    walk(f"task stop {job} -r 1", says="being stopped: 1")
    walk(f"task start {job} -r 1", says="1")
    walk(f"pod stop {pod}", says="being stopped")
    walk(f"pod start {pod}", says="being started")


def walk_stale_versions(walk: Walk, job: str, spec: str) -> None:
    """Call what takes an entity version with one that is not the present one."""
    stale = "--entity-version 9-9-9"
    says = "9-9-9 is not its present entity version"
    versioned = (
        "start",
        "stop",
        "delete -f",
        "restart",
        "workflow pause",
        "workflow resume",
        "workflow abort",
    )
    for command in versioned:
        walk(f"job stateless {command} {job} {stale}", code=1, says=says)
    walk(f"job stateless replace-diff {stale} {job}", spec, "/walk", code=1, says=says)
    walk(f"job stateless replace --follow {stale} {job}", spec, "1", "/walk", code=1, says=says)
    walk(
        f"job stateless rollback --override --follow {job} 1 {stale}", code=1, says="has no config version 9"
    )


def walk_services(walk: Walk, files: Files) -> None:
    text = SPEC.read_text().replace("name: web", "name: walked\nlabels: [{key: team, value: walk}]", 1)
    first, second = files("web1", text), files("web2", text.replace("version 1", "version 2"))
    job = "00000000-0000-4000-8000-000000000003"
    create = "--maxInstanceRetries 2 --maxTolerableInstanceFailures 1 --opaque-data y"
    wait_for(
        lambda: "3 would be placed now" in walk("job stateless create /walk", first, "0", "--dry-run"),
        SECONDS,
    )
    walk("job stateless create /walk", first, "0", "--start-paused", "-i", job, *create.split(), says=job)

    walk("job stateless create --follow /walk", first, "0", "-i", job, code=1, says=job)

    def version() -> str:
        answer = json.loads(walk(f"job stateless get {job} --summaryonly -j"))
        return str(answer["summary"]["status"]["version"]["value"])

    walk(f"job stateless workflow resume {job} {version()} --opaque-data z")
    wait_for(lambda: "POD_STATE_RUNNING: 3" in walk(f"job stateless get {job} --summaryonly"), SECONDS)
    began = version()
    walk(f"job stateless get {job} --jobversion {began}", says="walked")
    walk("job stateless list", says=job)
    walk(f"job stateless list-pods {job} -r 0:2", says=f"{job}-1")
    walk(f"job stateless list-updates {job} --limit 2", says="SUCCEEDED")
    walk(f"job stateless query {QUERY} -s running".replace("walkers", "team-hello"), says=job)
    walk("job stateless query --crash-looping")
    walk(f"job stateless cache {job}", says="3")
    walk(f"job stateless refresh {job}", says="refreshed")
    walk(f"jobmgr instance-availability {job} -i 0,1", says="AVAILABLE")
    walk(f"job stateless replace-diff {job}", second, "/walk", began, says="updated: 0-2")
    walk(f"job stateless replace {job}", second, "1", "/walk", began, *UPDATE.split(), says=job)
    walk(f"job stateless workflow pause {job} {version()} --opaque-data a")
    walk(f"job stateless rollback {job} 1 {began} {UPDATE}", says=job)
    walk(f"job stateless workflow abort {job} {version()} --opaque-data b")
    walk(f"job stateless workflow events {job} 0 -l 5")
    walk(f"job stateless restart {job} {version()} -r 0:1 --batch-size 1 --in-place --opaque-data c")
    walk_stale_versions(walk, job, second)
    first_line = walk.streamed(f"watch job {job} -l team=walk")
    assert first_line.startswith("watch ")
    walk(f"watch cancel {first_line.split()[1]}", code=1, says=first_line.split()[1])
    assert walk.streamed(f"watch pod {job} {job}-0 -l team=walk").startswith("watch ")
    walk("job stateless stop --owner team-hello -l team=walk -y", says=f"Job {job} is being stopped")
    walk(f"job stateless start {job} --follow", says="RUNNING 3")
    walk(f"job stateless restart {job} --follow", says="SUCCEEDED  3/3 done")
    walk("job stateless delete --owner team-hello -l team=walk -f -y", says=f"Job {job}")
    wait_for(lambda: job not in walk("job stateless list"), SECONDS)


def walk_old_updates(walk: Walk, files: Files) -> None:
    job = "00000000-0000-4000-8000-000000000004"
    walk("job create /walk", files("old", V0), "-i", job)
    wait_for(lambda: "RUNNING: 2" in walk(f"job status {job}"), SECONDS)
    config = files("old2", V0.replace("sleep 600", "sleep 700"))
    update = walk(f"update create {job}", config, "1", "/walk", *UPDATE.split()).split()[-1]
    wait_for(lambda: "state: PAUSED" in walk(f"update get {update}"), SECONDS)
    walk(f"update list {job} --limit 3", says=update)
    walk(f"update cache {update}", says="instancesUpdated")
    walk(f"update pause {update} --opaque-data a")
    walk(f"update resume {update} --opaque-data b")
    walk(f"update abort {update} --opaque-data c")
    walk(f"update get {NOBODY}", code=1, says=NOBODY)
    walk(f"update create --override --follow {NOBODY}", config, "1", "/walk", code=1, says=NOBODY)
    for command in ("restart", "stop", "start"):
        walk(f"job rolling-{command} {job} 1 -r 0:1 --resourceVersion 999", code=1)
    walk(f"job stop {job}")
    wait_for(lambda: "state: KILLED" in walk(f"job status {job}"), SECONDS)
    walk(f"job delete {job}", says="deleted")


def walk_hosts(walk: Walk, harness: Harness) -> None:
    host = walk("host query -s up -o name").split()[-1]
    walk("host query -s sleeping", code=2, says="DRAINING")
    free = f"hostmgr hosts -c 0.5 -g 0 --mem 1 --disk 1 -r --hosts {host}"
    wait_for(lambda: host in walk(free), SECONDS, lambda: walk("hostmgr hosts"))
    walk("hostmgr hosts -c 1000 -l", says=host)
    walk("hostmgr offers", says=host)
    walk("hostcache dump", says=host)
    walk("host maintenance status", says="No host")
    walk("host maintenance start nosuch", code=1, says="nosuch")
    walk("host maintenance start nosuch -f", code=1, says="nosuch")
    walk(f"host maintenance complete {host}", code=1, says=host)
    walk(f"host forget {host}", code=1, says=f"{host} is not lost")
    walk("host forget nosuch", code=1, says="nosuch")
    walk("hostpool list", says="not in use")
    walk("hostpool list-hosts default", says=host)
    walk("hostpool create walk")
    walk("hostpool change nosuch walk -s default", code=1, says="nosuch")
    walk("hostpool move default 1 nosuch 1", code=1, says="nosuch")
    walk("hostpool delete walk")


def walk_daemons(walk: Walk) -> None:
    walk("jobmgr throttled-pods")
    walk("jobmgr query-job-cache --name walk* -l team=walk")
    walk(f"resmgr tasks active --job {NOBODY} --respool /walk --states running")
    walk("resmgr tasks pending /walk --limit 5")
    walk("resmgr tasks pending /nowhere", code=1, says="/nowhere")
    walk("resmgr tasks orphan --respool /walk")
    walk("admin lock Read", says="Read")
    walk("job active-list", code=1, says="ocked")
    walk("admin unlock Read Write", says="Read")
    assert walk.streamed("hostmgr events-mesos-update")
    assert walk.streamed("hostmgr events-host-summary")
    walk("hostmgr disable-kill-tasks", says="until the host manager is restarted")
