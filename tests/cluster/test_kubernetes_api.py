"""The API in Kubernetes' style: the commands of docs/kubernetes.md by each kubectl that is there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, DaemonSettings, Instances
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.client import LocalDiscovery, PelotonClient
from tests.cluster.conftest import wait_for
from tests.documented import blocks
from tests.servers.kubectl import known
from tools.docs import ROOT

pytestmark = pytest.mark.extended
PAGE = ROOT / "docs" / "kubernetes.md"
OURS = "tests/cluster/test_kubernetes_api.py"
SECONDS = 240.0
CLIENT = ROOT / "tests" / "servers" / "python_client.py"
CLIENT_PYTHON = ROOT / "build" / "kubernetes-client" / "bin" / "python"
EXAMPLES = ROOT / "examples" / "kubernetes-api"
CLASSES = [{"name": "high", "priority": 100, "description": "what cannot wait"}]


def make_pool(cluster: Cluster) -> None:
    """Make the pool /team."""
    client = PelotonClient("test", discovery=LocalDiscovery(cluster.layout.membership))
    config = respool_pb2.ResourcePoolConfig(
        name="team",
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[
            respool_pb2.ResourceConfig(kind=kind, limit=1e6, share=1, reservation=reserved)
            for kind, reserved in (("cpu", 6), ("memory", 3072), ("disk", 30000))
        ],
    )
    request = respool_pb2.CreateRequest(config=config)
    wait_for(
        lambda: not client.respool_svc.CreateResourcePool(request, timeout=30).HasField("error"),
        30,
        lambda: "no pool",
    )


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the web UI of a cluster with the pool /team."""
    cluster = Cluster(tmp_path_factory.mktemp("api") / "cluster")
    settings = DaemonSettings(jobmgr={"priority_classes": CLASSES, "enable_secrets": True})
    cluster.up(ClusterSettings(ports="free", instances=Instances(web=1), settings=settings))
    try:
        make_pool(cluster)
        (found,) = [each for each in cluster.components() if each.kind == "web"]
        yield found.addresses["http"]
    finally:
        cluster.down()


KUBECONFIG = """cat > kubeconfig <<END
apiVersion: v1
kind: Config
clusters: [{name: peloton, cluster: {server: "$PELOTON_WEB"}}]
users: [{name: me, user: {}}]
contexts: [{name: peloton, context: {cluster: peloton, user: me, namespace: team}}]
current-context: peloton
END
"""

NOTHING_LEFT = "timeout 30 sh -c 'until [ -z \"$(kubectl get all -o name)\" ]; do sleep 0.5; done'"


class Shell:
    """Runs commands in a folder whose `kubectl` is the one that is tried."""

    def __init__(self, web: str, kubectl: Path, folder: Path) -> None:
        self._folder = folder
        tools = folder / "bin"
        tools.mkdir()
        (tools / "kubectl").symlink_to(kubectl)
        self._environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PELOTON_WEB": web,
        }

    def run(self, script: str, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, (script, done.stdout, done.stderr)
        return done.stdout + (done.stderr if code else "")

    def page(self) -> str:
        """Run the blocks of the page; return what they print."""
        return self.run("set -x\n" + "".join(own_blocks()))

    def files(self) -> None:
        """Write the files of the first three blocks of the page, and run none of their other commands."""
        for block in own_blocks()[:3]:
            self.run(block[: block.index("\nEND\n") + 5])


def own_blocks() -> list[str]:
    """The blocks of the page that this module runs."""
    found = [block.text for block in blocks(PAGE) if block.mark == "run by" and block.said == OURS]
    assert len(found) == 4
    return found


@pytest.fixture(params=known(), ids=lambda path: path.parent.name)
def shell(request: pytest.FixtureRequest, web: str, tmp_path: Path) -> Shell:
    return Shell(web, request.param, tmp_path)


def test_the_commands_of_the_page(shell: Shell) -> None:
    printed = shell.page()
    for expected in (
        "job.batch/hello created",
        "job.batch/hello condition met",
        "hello from ",
        "deployment.apps/web scaled",
        "deployment.apps/web configured",
        'deployment "web" successfully rolled out',
        "version 2",
        "\nin /",
        "\ntyped\n",
        "deployment.apps/web rolled back",
        'deployment.apps "web" deleted',
        'daemon set "agent" successfully rolled out',
        "daemonset.apps/agent restarted",
        "statefulset.apps/db restarted",
        "statefulset.apps/db scaled",
        'statefulset.apps "db" deleted',
        "resourcequota/pool patched",
        "limits.cpu",
    ):
        assert expected in printed, printed
    names = [line.split()[0] for line in printed.splitlines() if line.startswith("pod/hello-")]
    assert len(names) == 2
    assert shell.run("kubectl get all -o name") == ""


def test_what_is_refused_and_what_is_only_tried(shell: Shell) -> None:
    shell.files()
    refused = shell.run(
        "sed 's/completions: 2/completions: 2\\n  maxFailedIndexes: 1/' job.yaml | kubectl apply -f -", 1
    )
    assert "spec.maxFailedIndexes" in refused
    assert "created (server dry run)" in shell.run("kubectl apply --dry-run=server -f job.yaml")
    for kind in ("job", "deployment"):
        made = shell.run(f"kubectl create {kind} made --image=busybox --dry-run=server -- sleep 600")
        assert "/made created (server dry run)" in made
    assert shell.run("kubectl get jobs,deployments -o name") == ""
    pod = "/api/v1/namespaces/team/pods/x"
    assert "ports of a pod are those of its host" in shell.run(f"kubectl get --raw {pod}/portforward", 1)
    assert "there are no ConfigMaps" in shell.run("kubectl create configmap a --from-literal=a=b", 1)
    assert "make a Job or a Deployment" in shell.run("kubectl run x --image=none", 1)


def test_server_side_apply(shell: Shell) -> None:
    shell.files()
    assert shell.run("kubectl apply --server-side -f web.yaml") == "deployment.apps/web serverside-applied\n"
    try:
        assert "serverside-applied" in shell.run("kubectl apply --server-side -f web.yaml")
        assert shell.run("kubectl diff --server-side -f web.yaml") == ""
        shell.run("kubectl scale --replicas=2 deployment/web")
        refused = shell.run("kubectl apply --server-side --field-manager=ci -f web.yaml", 1)
        assert 'conflict with "kubectl" using apps/v1: .spec.replicas' in refused.replace("\n", " ")
        forced = "kubectl apply --server-side --field-manager=ci --force-conflicts"
        shell.run(f"sed -i 's/version 1/version 2/' web.yaml; {forced} -f web.yaml")
        assert shell.run("kubectl get deployment web -o jsonpath='{.spec.replicas}'") == "3"
        fields = shell.run(
            "kubectl get deployment web --show-managed-fields -o jsonpath='{.metadata.managedFields}'"
        )
        assert '"manager":"ci","operation":"Apply"' in fields
        shell.run("kubectl apply -f web.yaml")
        shell.run("kubectl rollout status --timeout=60s deployment/web")
        shell.run("kubectl apply --server-side --force-conflicts -f job.yaml")
        shell.run("kubectl wait --for=condition=complete --timeout=60s job/hello")
    finally:
        shell.run("kubectl delete --ignore-not-found deployment/web job/hello")


def test_a_watch_and_output_that_is_followed(shell: Shell) -> None:
    shell.files()
    script = """
    sed -i 's/echo hello/for i in 1 2 3; do echo line $i; sleep 0.5; done; echo hello/' job.yaml
    sed -i 's/\\$i/$''i/' job.yaml
    kubectl apply -f job.yaml
    kubectl wait --for=jsonpath='{.status.ready}'=2 job/hello --timeout=30s || true
    pod=$(kubectl get pods -l job-name=hello -o name | sed -n 1p)
    kubectl logs -f "$pod"
    kubectl describe "$pod"
    kubectl get job hello -o json
    kubectl delete -f job.yaml
    """
    printed = shell.run(script)
    assert [f"line {i}" in printed for i in (1, 2, 3)] == [True] * 3, printed
    assert "Started" in printed
    found = json.loads(printed[printed.index("{\n") : printed.rindex("}\n") + 2])
    assert found["spec"]["completions"] == 2


def test_a_job_is_suspended_and_goes_on(shell: Shell) -> None:
    shell.files()
    shell.run("sed -i 's/completions: 2/completions: 2\\n  suspend: true/' job.yaml")
    shell.run("sed -i 's/echo hello from/sleep 600; echo/' job.yaml")
    assert "job.batch/hello created" in shell.run("kubectl apply -f job.yaml")
    try:
        assert "Suspended" in shell.run("kubectl get job hello")
        assert shell.run("kubectl get pods -o name") == ""
        shell.run("sed -i 's/suspend: true/suspend: false/' job.yaml")
        assert "job.batch/hello configured" in shell.run("kubectl apply -f job.yaml")
        shell.run("kubectl wait --for=jsonpath='{.status.ready}'=2 job/hello --timeout=30s")
        shell.run("""kubectl patch job hello -p '{"spec": {"suspend": true}}'""")
        shell.run("kubectl wait --for=condition=Suspended job/hello --timeout=10s")
        shell.run("kubectl wait --for=jsonpath='{.status.phase}'=Failed pods -l job-name=hello --timeout=30s")
        shell.run("kubectl wait --for=condition=Suspended=true job/hello --timeout=10s")
        assert "metadata" in shell.run("kubectl label job hello other=label", 1)
    finally:
        shell.run("kubectl delete job hello")


def test_a_secret_is_written_and_not_read(shell: Shell) -> None:
    shell.run(KUBECONFIG)
    made = shell.run(
        "kubectl create secret generic db --from-literal=password=hidden --from-literal=user=ann"
    )
    assert made == "secret/db created\n"
    try:
        described = shell.run("kubectl describe secret db")
        assert "password:  0 bytes" in described
        for form in ("yaml", "json", "wide"):
            shown = shell.run(f"kubectl get secret db -o {form}")
            assert "hidden" not in shown and "aGlkZGVu" not in shown
        shell.run("kubectl label secret db team=a")
        shell.run("""kubectl patch secret db -p '{"stringData": {"more": "text"}}'""")
        made = "kubectl create job read --image=none --dry-run=client -o yaml"
        shell.run(f"{made} -- sh -c 'echo of $user' > read.yaml")
        shell.run("sed -i '/image:/d; s/resources: {}/envFrom: [{secretRef: {name: db}}]/' read.yaml")
        shell.run("kubectl apply -f read.yaml")
        shell.run("kubectl wait --for=condition=complete --timeout=60s job/read")
        assert shell.run("kubectl logs job/read") == "of ann\n"
        refused = shell.run(
            "sed 's/name: db/name: none/; s/name: read/name: other/' read.yaml | kubectl apply -f -", 1
        )
        assert "the namespace has no Secret 'none'" in refused
    finally:
        shell.run("kubectl delete --ignore-not-found secret/db job/read")
    assert "NotFound" in shell.run("kubectl get secret db", 1)


def test_a_cron_job(shell: Shell) -> None:
    shell.run(KUBECONFIG)
    made = shell.run("kubectl create cronjob minutely --image=busybox --schedule='* * * * *' -- date 2>&1")
    assert "spec.concurrencyPolicy: Forbid" in made and "cronjob.batch/minutely created" in made
    shell.run("kubectl delete cronjob minutely")
    assert "cronjob.batch/nightly created" in shell.run(f"kubectl apply -f {EXAMPLES}/cron-job.yaml")
    try:
        shell.run("""kubectl patch cronjob nightly -p '{"spec": {"suspend": true}}'""")
        assert " true " in shell.run("kubectl get cronjobs nightly")
        refused = shell.run(f"sed 's/Forbid/Allow/' {EXAMPLES}/cron-job.yaml | kubectl apply -f -", 1)
        assert "spec.concurrencyPolicy: Forbid or Replace" in refused
        shell.run("kubectl create job now --from=cronjob/nightly")
        shell.run("kubectl wait --for=condition=complete --timeout=30s job/now")
        shell.run("""kubectl patch cronjob nightly -p '{"spec": {"suspend": false}}'""")
    finally:
        shell.run("kubectl delete --ignore-not-found cronjob/nightly job/now")
    shell.run(NOTHING_LEFT)


@pytest.mark.parametrize("shell", known()[:1], indirect=True, ids=lambda path: path.parent.name)
def test_a_run_of_a_cron_job(shell: Shell) -> None:
    """It begins within a minute."""
    shell.run(f"{KUBECONFIG}sed 's/30 3/* */' {EXAMPLES}/cron-job.yaml | kubectl apply -f -")
    try:
        shell.run(
            "timeout 90 sh -c 'until kubectl get jobs -l app=nightly -o name | grep z$; do sleep 1; done'"
        )
        run = shell.run("kubectl get jobs -l app=nightly -o name | grep z$ | sed -n 1p").strip()
        shell.run(f"kubectl wait --for=condition=complete --timeout=60s {run}")
        assert "of 20" in shell.run(f"kubectl logs {run}")
        assert "Last Schedule Time" in shell.run("kubectl describe cronjob nightly")
    finally:
        shell.run("kubectl delete cronjob/nightly")
    shell.run(NOTHING_LEFT)


def test_the_official_python_client(web: str, tmp_path: Path) -> None:
    if not CLIENT_PYTHON.exists():
        pytest.skip(f"no {CLIENT_PYTHON}: make kubernetes-client")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        KUBECONFIG.split("\n", 1)[1].replace("END\n", "").replace("$PELOTON_WEB", f"http://{web}")
    )
    done = subprocess.run(
        [CLIENT_PYTHON, CLIENT, kubeconfig, "team"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.count(" done\n") == 6


RUNNING = ("deploy/web", "deploy/workers", "deploy/pinned", "deploy/later", "sts/db", "ds/agent")
ENDED = ("job/report", "job/parts", "job/spare", "job/urgent", "job/failing", "job/reader")


def test_the_manifests_of_the_examples(shell: Shell) -> None:
    """Apply, get, describe, logs, exec, scale, wait, rollout and delete, of fifteen ordinary manifests."""
    assert len([*EXAMPLES.iterdir()]) == 15
    applied = shell.run(f"{KUBECONFIG}kubectl apply -f {EXAMPLES}")
    assert applied.count(" created\n") == 14, applied
    assert "resourcequota/pool configured" in applied
    try:
        complete = " ".join(each for each in ENDED if each != "job/failing")
        shell.run(f"kubectl wait --for=condition=complete --timeout=60s {complete}")
        shell.run("kubectl wait --for=condition=failed --timeout=60s job/failing")
        shell.run("kubectl rollout resume deploy/later")
        for each in RUNNING:
            assert shell.run(f"kubectl rollout status --timeout=60s {each}")
        assert len(shell.run("kubectl get all -o name").split()) > 2 * len(RUNNING + ENDED)
        for each in RUNNING + ENDED:
            assert "Labels:" in shell.run(f"kubectl describe {each}")
        check_logs(shell)
        for each in RUNNING:
            assert shell.run(f"kubectl exec {each} -- sh -c 'echo beside; exit 4'", 4).startswith("beside\n")
        check_rollouts(shell)
        shell.run("kubectl scale --replicas=2 deploy/web sts/db")
        shell.run("kubectl rollout status --timeout=60s deploy/web")
        assert shell.run("kubectl get deploy web -o jsonpath='{.status.readyReplicas}'") == "2"
    finally:
        shell.run(f"kubectl delete cronjob/nightly secret/login {' '.join(RUNNING + ENDED)}")
    assert shell.run("kubectl get all -o name") == ""


def check_logs(shell: Shell) -> None:
    for each, text in (
        ("job/report", "the report of production"),
        ("job/parts", "of 6"),
        ("job/failing", "this goes wrong"),
        ("job/spare", "with what nobody else uses"),
        ("job/urgent", "urgent"),
        ("job/reader", "read by ann"),
        ("deploy/web", "version 1"),
        ("deploy/workers", "working for data-queue"),
        ("deploy/pinned", "on "),
        ("sts/db", "1 data/starts"),
        ("ds/agent", "on a host"),
    ):
        assert text in shell.run(f"kubectl logs {each}"), each


def check_rollouts(shell: Shell) -> None:
    """Change the template of each kind, go back by `rollout undo`, and look at the revisions."""
    for each, revisions in (("deploy/web", ["3", "5"]), ("sts/db", ["2", "3"]), ("ds/agent", ["2", "3"])):
        before = shell.run(f"kubectl get {each} -o jsonpath='{{.spec.template.spec}}'")
        shell.run(f"kubectl rollout pause {each}" if "deploy" in each else "true")
        shell.run(f"kubectl set env {each} CHANGED=yes")
        shell.run(f"kubectl rollout resume {each}" if "deploy" in each else "true")
        shell.run(f"kubectl rollout status --timeout=60s {each}")
        assert shell.run(f"kubectl exec {each} -- sh -c 'echo $CHANGED'") == "yes\n"
        assert f"{each.partition('/')[2]} rolled back" in shell.run(f"kubectl rollout undo {each}")
        shell.run(f"kubectl rollout status --timeout=60s {each}")
        assert shell.run(f"kubectl get {each} -o jsonpath='{{.spec.template.spec}}'") == before
        history = shell.run(f"kubectl rollout history {each}").splitlines()
        assert [line.split()[0] for line in history[2:] if line] == revisions, history
        assert "Containers" in shell.run(f"kubectl rollout history {each} --revision={revisions[0]}")
