"""What a task can reach of others where its agent keeps tasks apart, and what it still has."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from minicluster.mesos.agent import isolation
from minicluster.mesos.agent.isolation import Isolation, Mode, detect
from tests.contract.mesos.client import Wire, render
from tests.contract.mesos.cluster import Processes
from tests.contract.mesos.framework import Framework, eventually
from tests.contract.mesos.test_agent import ENDS, Cluster, with_agent
from tests.contract.mesos.test_volumes import CREATE, DATABASE, RESERVE, accept, launch

FOUND = detect(Mode.AUTO, [Path(__file__).parent])
pytestmark = pytest.mark.skipif(not FOUND.encloses, reason=f"tasks cannot have {FOUND.lacks}")
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder through which other users cannot pass, as the home of root is."""
    made = Path(mkdtemp(prefix="peloton-isolation-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    (folder / "key").write_text("the key of the cluster")
    async with isolated(folder) as made:
        yield made


@asynccontextmanager
async def isolated(folder: Path) -> AsyncIterator[Cluster]:
    async with with_agent(folder, "--isolation=require", f"--hide={folder}") as made:
        yield made


async def output(cluster: Cluster, name: str, script: str, **more: Any) -> str:
    """What a task writes that must succeed."""
    await cluster.framework.launch(name, script, **more)
    status = await cluster.framework.until(*ENDS)
    sandbox = cluster.sandbox(name)
    told = (sandbox / "stdout").read_text(), (sandbox / "stderr").read_text()
    assert status["state"] == "TASK_FINISHED", (status, told)
    return told[0]


async def test_a_task_has_what_it_needs(cluster: Cluster) -> None:
    script = 'id -u; pwd; echo x > "$MESOS_SANDBOX/own"; cat own; test -w /tmp && ls / > /dev/null && umask'
    uid, place, own, mask = (await output(cluster, "one", script)).split()
    assert (int(uid) in (FOUND.users or ())) == AS_ROOT
    assert (place, own, mask) == (str(cluster.sandbox("one").resolve()), "x", "0022")


async def test_a_task_ends_as_it_ended(cluster: Cluster) -> None:
    for name, script, message in (
        ("code", "exit 7", "Command exited with status 7"),
        ("signal", "kill -11 $$", "Command terminated with signal Segmentation fault"),
    ):
        await cluster.framework.launch(name, script)
        status = await cluster.framework.until(*ENDS)
        assert (status["state"], status["message"]) == ("TASK_FAILED", message)
    await cluster.framework.launch("killed", "sleep 600")
    await cluster.framework.until("TASK_RUNNING")
    await cluster.framework.call("KILL", kill={"task_id": {"value": "killed"}})
    status = await cluster.framework.until(*ENDS)
    assert (status["state"], status["message"]) == (
        "TASK_KILLED",
        "Command terminated with signal Terminated",
    )
    await cluster.framework.launch("found", "", command={"shell": False, "value": "true"})
    assert (await cluster.framework.until(*ENDS))["state"] == "TASK_FINISHED"
    await cluster.framework.launch("absent", "", command={"shell": False, "value": "/no/such/file"})
    status = await cluster.framework.until(*ENDS)
    assert (status["state"], status["message"]) == ("TASK_FAILED", "Command exited with status 1")


async def test_what_a_task_detached_ends_with_it(cluster: Cluster) -> None:
    mark = f"6{os.getpid()}"
    await output(cluster, "one", f"setsid sleep {mark} >/dev/null 2>&1 & sleep 0.1")
    assert not processes_with(mark)


def processes_with(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(path.parent.name)
    return found


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def victim(cluster: Cluster) -> tuple[int, Path]:
    """Launch a task with something to hide; its pid and sandbox."""
    mark = f"7{os.getpid()}"
    variables = {"variables": [{"name": "SECRET", "value": "hidden in the environment"}]}
    script = f"echo hidden in a file > note; sleep {mark} & wait"
    await cluster.framework.launch("victim", script, command={"environment": variables})
    await cluster.framework.until("TASK_RUNNING")
    pids = await eventually(lambda: processes_with(mark))
    return int(pids[0]), cluster.sandbox("victim").resolve()


async def test_a_task_reaches_nothing_of_the_cluster_and_of_others(cluster: Cluster, folder: Path) -> None:
    pid, sandbox = await victim(cluster)
    attempts = {
        "key": f"cat {folder}/key",
        "list": f"test -n \"$(ls {folder} | grep -v '^agent$')\"",
        "write": f"touch {folder}/planted",
        "work": f"ls {cluster.work_dir}/meta/pids",
        "sandbox": f"cat {sandbox}/note",
        "by-root": f"cat /proc/1/root{folder}/key",
        "by-cwd": f"cat /proc/{pid}/cwd/note",
        "environment": f"cat /proc/{pid}/environ",
        "environments": "cat /proc/[0-9]*/environ | grep -a 'hidden in the environment'",
        "commands": f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -a 'sleep [7]{os.getpid()}'",
        "memory": f"true < /proc/{pid}/mem",
        "kill": f"kill -9 {pid}",
        "kill-agent": f"kill -9 {cluster.processes.members['agent'].process.pid}",
        "unmount": f"umount {folder} || umount -l {folder}",
        "unmount-again": f"unshare -Urm sh -c 'umount -l {folder}; cat {folder}/key'",
        "root": "sudo -n true || su -c true < /dev/null",
    }
    script = "; ".join(f"({attempt}) >/dev/null 2>&1 && echo {name}" for name, attempt in attempts.items())
    assert await output(cluster, "attacker", f"{script}; true") == ""
    await cluster.framework.launch("killer", "kill -9 -1")  # it reaches whom it may
    assert (await cluster.framework.until(*ENDS))["task_id"]["value"] == "killer"
    assert not (folder / "planted").exists()
    assert is_there(pid)
    body = json.dumps({"type": "GET_HEALTH"}).encode()
    wire = await Wire.open("127.0.0.1", cluster.agent_port)
    wire.send("POST", render("POST", "/api/v1", {"Content-Type": "application/json"}, body, "x"))
    assert (await wire.reply()).status == 200
    wire.close()


def make_link(target: Path) -> Path:
    """Link to a file from where everybody may pass."""
    outside = Path(mkdtemp(prefix="peloton-isolation-link-"))
    outside.chmod(0o711)
    link = outside / "link"
    link.symlink_to(target)
    return link


async def test_a_task_cannot_have_hidden_files_fetched(cluster: Cluster, folder: Path) -> None:
    link = make_link(folder / "key")
    try:
        for number, source in enumerate((folder / "key", link)):
            await cluster.framework.launch(
                f"fetch-{number}", "true", command={"uris": [{"value": str(source)}]}
            )
            status = await cluster.framework.until(*ENDS)
            assert status["state"] == "TASK_FAILED", status
            assert "cannot be fetched" in (cluster.sandbox(f"fetch-{number}") / "stderr").read_text()
    finally:
        shutil.rmtree(link.parent)


async def test_a_command_beside_a_task_is_in_its_namespaces(cluster: Cluster, folder: Path) -> None:
    await cluster.framework.launch("one", "echo x > own; sleep 600")
    running = await cluster.framework.until("TASK_RUNNING")
    await eventually(lambda: (cluster.sandbox("one") / "own").exists())
    container = running["container_status"]["container_id"]
    script = f"cat own; cat {folder}/key; id -u; ls -d /proc/[0-9]* | wc -l; exit 5"
    command = {"shell": False, "value": "sh", "arguments": ["sh", "-c", script]}
    session = {"container_id": {"value": "s", "parent": container}, "command": command}
    call = {"type": "LAUNCH_NESTED_CONTAINER_SESSION", "launch_nested_container_session": session}
    wire = await Wire.open("127.0.0.1", cluster.agent_port)
    headers = {"Content-Type": "application/json"}
    wire.send("POST", render("POST", "/api/v1", headers, json.dumps(call).encode(), "x"))
    assert (await wire.reply()).status == 200
    pieces = []
    while (record := await wire.record()) is not None:
        pieces.append(json.loads(record)["data"])
    wire.close()
    text = b"".join(base64.b64decode(each["data"]) for each in pieces if each["type"] == "STDOUT").decode()
    own, uid, seen = text.split()
    assert own == "x" and int(seen) < 10
    assert (int(uid) in (FOUND.users or ())) == AS_ROOT


async def test_a_health_check_is_in_the_namespaces(cluster: Cluster, folder: Path) -> None:
    check = {
        "type": "COMMAND",
        "command": {"value": f"test -e own && ! test -e {folder}/key && test $$ -lt 1000"},
        **dict.fromkeys(("delay_seconds", "interval_seconds", "grace_period_seconds"), 0.05),
    }
    await cluster.framework.launch("one", "touch own; sleep 600", health_check=check)
    while "healthy" not in (status := await cluster.framework.until("TASK_RUNNING")):
        pass
    assert status["healthy"] is True


async def test_tasks_of_one_user_do_not_reach_each_other(cluster: Cluster) -> None:
    if not AS_ROOT:
        pytest.skip("only an agent of root runs tasks as other users")
    mark = f"8{os.getpid()}"
    await cluster.framework.launch("victim", f"sleep {mark} & wait", command={"user": "nobody"})
    await cluster.framework.until("TASK_RUNNING")
    pid = int((await eventually(lambda: processes_with(mark)))[0])
    script = f"id -un; kill -9 {pid} 2>/dev/null && echo killed; cat /proc/{pid}/environ 2>/dev/null; true"
    assert await output(cluster, "attacker", script, command={"user": "nobody"}) == "nobody\n"
    assert is_there(pid)


async def test_a_tasks_user_has_a_name(cluster: Cluster) -> None:
    """Hadoop's library, and many programs with it, do not start for a user that /etc/passwd does not have."""
    if not AS_ROOT:
        pytest.skip("only an agent of root runs tasks as other users")
    script = "id -un; id -gn; getent passwd $(id -u); echo $USER $LOGNAME $HOME; getent passwd root; "
    script += "wc -l < /etc/passwd"
    name, group, entry, variables, root, lines = (await output(cluster, "one", script)).splitlines()
    home = str(cluster.sandbox("one").resolve())
    uid = entry.split(":")[2]
    assert int(uid) in (FOUND.users or ())
    assert (name, group) == (f"task-{uid}", f"task-{uid}")
    assert entry == f"{name}:x:{uid}:{uid}::{home}:/bin/sh"
    assert variables == f"{name} {name} {home}"
    assert root == entries()[0] and int(lines) == len(entries()) + 1
    assert not any(name in line for line in entries())
    assert await output(cluster, "two", "test -w /etc/passwd || echo refused") == "refused\n"
    script = "id -un; echo $USER"
    assert await output(cluster, "three", script, command={"user": "nobody"}) == "nobody\nnobody\n"


def entries() -> list[str]:
    return Path("/etc/passwd").read_text().splitlines()


async def test_tasks_are_users_of_their_own(cluster: Cluster) -> None:
    if not AS_ROOT:
        pytest.skip("only an agent of root runs tasks as other users")
    users = {
        await output(cluster, f"task-{number}", "id -u", command={"user": "root"}) for number in range(3)
    }
    assert len(users) == 3 and all(int(each) in (FOUND.users or ()) for each in users)


OPENED = """
set -e
layers=$1
shift
while [ "$1" != -- ]; do
    top=$1 needed=$2
    shift 2
    layer=$(mktemp -d "$layers/XXXXXX")
    mount -t tmpfs tmpfs "$layer"
    mkdir "$layer/upper" "$layer/work"
    mount -t overlay -o "lowerdir=$top,upperdir=$layer/upper,workdir=$layer/work" overlay "$top"
    folder=$needed
    while [ "$folder" != "$top" ]; do folder=$(dirname "$folder"); chmod o+x "$folder"; done
    find "$needed" -xdev -type d ! -perm -o=rx -exec chmod o+rx {} +
    find "$needed" -xdev -type f ! -perm -o=r -exec chmod o+rX {} +
done
shift
cd .
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""
"""In a mount namespace of its own: open folders to others by a layer above them, and become another user."""

RUNS = "import subprocess, sys, pytest; subprocess.run([sys.executable, '-c', 'import grpc'], check=True)"


def opened(layers: Path) -> list[str]:
    """Return the command before a command of this Python and checkout that runs as another user."""
    needed = {Path(sys.base_prefix).resolve(), Path(__file__).resolve().parents[3]}
    pairs = [str(path) for folder in sorted(needed) for path in (isolation.closed_from(folder), folder)]
    layers.mkdir()
    return ["unshare", "-m", "sh", "-c", OPENED, "-", str(layers), *pairs, "--"]


@pytest.mark.extended
def test_an_agent_that_is_not_root_encloses_its_tasks(folder: Path) -> None:
    """This file again, as a user that is not root."""
    if not AS_ROOT:
        pytest.skip("it is not root's")
    folder.chmod(0o777)
    as_another = opened(folder / "layers")
    root = Path(__file__).parents[3]
    runs = subprocess.run(
        [*as_another, sys.executable, "-c", RUNS], cwd=root, capture_output=True, text=True, check=False
    )
    if runs.returncode != 0:
        pytest.skip(f"another user cannot run this Python: {runs.stderr.strip()[-300:]}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(folder / "t"),
    ]
    done = subprocess.run(
        [*as_another, *command, __file__, "-k", "not that_is_not_root"],
        cwd=root,
        env={**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("only an agent of root" in line for line in skipped), skipped
    assert "[100%]" in done.stdout


@pytest.mark.parametrize(
    ("mapped", "users"),
    [
        ("0 0 4294967295", range(1 << 30, 1 << 31)),
        ("0 100000 65536", range(20_000, 60_000)),
        ("0 1000 1\n1 100000 65535", range(20_000, 60_000)),
        ("1000 1000 1", None),
    ],
)
def test_which_users_are_unused(mapped: str, users: range | None) -> None:
    assert isolation.unused_users(mapped) == users


def test_what_is_lacking_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        isolation, "probe", lambda users, hidden: "mount proc at /proc: Operation not permitted"
    )
    found = detect(Mode.AUTO, [tmp_path])
    assert found.lacks == "namespaces of their own: mount proc at /proc: Operation not permitted"
    assert not found.encloses and found.enclosure([], None, tmp_path) is None
    assert detect(Mode.NONE, [tmp_path]) == Isolation()


async def test_a_volume_is_the_next_tasks_too(folder: Path) -> None:
    """Each of them has a sandbox of its own, and in this the volume, with the same user."""
    made = Cluster(Processes(folder))
    try:
        await made.start_master()
        await made.start_agent("--isolation=require", f"--hide={folder}")
        made.framework = await Framework.subscribe(made.master_port, **DATABASE)
        script = "id -u > data/user; chmod 600 data/user; echo kept > data/file"
        await accept(made.framework, RESERVE, CREATE, launch("writer", script))
        assert (await made.framework.until(*ENDS))["state"] == "TASK_FINISHED"
        script = f'test "$(cat data/user)" = "$(id -u)" && echo more >> data/file && ! ls {folder}/master'
        await accept(made.framework, launch("reader", script), holding=True)
        assert (await made.framework.until(*ENDS))["state"] == "TASK_FINISHED"
    finally:
        if hasattr(made, "framework"):
            made.framework.close()
        await made.processes.stop()
