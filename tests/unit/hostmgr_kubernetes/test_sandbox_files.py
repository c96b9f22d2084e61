"""Files of sandboxes: the scripts in shells of this host, and what the server of sandboxes makes of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hostmgr.kubernetes.sandboxes.files import MOST_READS, Files
from hostmgr.kubernetes.sandboxes.logs import Logs
from hostmgr.kubernetes.sandboxes.server import SandboxServer
from hostmgr.kubernetes.sandboxes.sessions import Sessions
from hostmgr.kubernetes.sandboxes.shell import (
    BLOCK_BYTES,
    MOST_ENTRIES,
    NoFile,
    blocks,
    inner_path,
    mounts_of,
)
from peloton.config.agents import PLAIN
from peloton.errors import NotFound, Refused, Unavailable
from peloton.kubernetes.client import ApiError
from peloton.withheld import LEFT_OUT, WITHHELD

RUN = "job-0-1"
FOLDER = f"/frameworks/F/executors/{RUN}/runs/{RUN}"
SHELLS = [found for found in map(shutil.which, ("sh", "bash", "busybox")) if found]


class Container:
    """An API server with one pod, whose container is this host."""

    def __init__(self, sandbox: Path, shell: str = "/bin/sh") -> None:
        self.variables = {"PATH": os.environ["PATH"], "MESOS_SANDBOX": str(sandbox)}
        self.shell = shell
        self.over: bool | None = False
        self.failure = ""
        self.refusal: Exception | None = None
        self.mounts: list[dict[str, Any]] = []
        self.commands = 0
        self.complains = False
        """Whether commands write to standard error without end."""
        self.files = Files(self, "peloton", "task", lambda pod: self.over)  # type: ignore[arg-type]

    async def call(self, method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", f"/api/v1/namespaces/peloton/pods/{RUN}")
        volumes = [{"name": "own", "emptyDir": {}}, {"name": "secrets", "secret": {}}]
        containers = [{"name": "task", "volumeMounts": self.mounts}, {"name": "other"}]
        return {"spec": {"volumes": volumes, "containers": containers}}

    async def stream(self, path: str, **params: Any) -> AsyncIterator[bytes]:
        yield b"log\n"

    @asynccontextmanager
    async def websocket(
        self, path: str, protocols: Sequence[str], params: Sequence[tuple[str, str]]
    ) -> AsyncIterator[Container]:
        self.commands += 1
        if self.refusal is not None:
            raise self.refusal
        command = [value for key, value in params if key == "command"]
        self._messages = asyncio.Queue[bytes]()
        if not self.failure:
            await self._run(command)
        status: dict[str, Any] = {"status": "Success"}
        if self.failure:
            status = {"status": "Failure", "message": self.failure}
        elif self._code:
            causes = [{"reason": "ExitCode", "message": str(self._code)}]
            status = {"reason": "NonZeroExitCode", "details": {"causes": causes}}
        self._messages.put_nowait(b"\x03" + json.dumps(status).encode())
        yield self

    async def _run(self, command: list[str]) -> None:
        assert command[0] == "/bin/sh"
        words = [self.shell, *(["sh"] if self.shell.endswith("busybox") else []), *command[1:]]
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=self.variables
        )
        output, error = await process.communicate()
        self._code = process.returncode
        self._messages.put_nowait(b"\x02" + error)
        for at in range(0, len(output), 1000):
            self._messages.put_nowait(b"\x01" + output[at : at + 1000])

    async def receive_bytes(self) -> bytes:
        if self.complains:
            await asyncio.sleep(0)
            return b"\x02no"
        return await self._messages.get()


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    """A sandbox with files, folders, links in it and out of it, and what is no file."""
    found = tmp_path / "sand box"
    (found / "out" / "deep").mkdir(parents=True)
    (found / "a b'$(x)").write_bytes(b"quoted")
    (found / ".hidden").write_bytes(b"")
    (found / "-n").write_bytes(b"option")
    (found / "out" / "raw").write_bytes(bytes(range(256)) * 1024)
    (found / "out" / "near").symlink_to("raw")
    (found / "far").symlink_to("/etc")
    (found / "dangling").symlink_to("nowhere")
    os.mkfifo(found / "pipe")
    (tmp_path / "sand box2").mkdir()
    (tmp_path / "sand box2" / "foreign").write_bytes(b"not in the sandbox")
    (found / "beside").symlink_to(tmp_path / "sand box2" / "foreign")
    return found


@pytest.fixture(params=SHELLS)
def container(sandbox: Path, request: pytest.FixtureRequest) -> Container:
    return Container(sandbox, request.param)


async def test_a_folder_is_listed(container: Container) -> None:
    found = {each.name: each for each in await container.files.browse(RUN, "")}
    names = {"out", "a b'$(x)", ".hidden", "-n", "far", "dangling", "pipe", "beside"}
    assert set(found) == names
    kinds = {each.mode[0]: name for name, each in found.items() if name in ("out", "far", "pipe", "-n")}
    assert kinds == {"d": "out", "l": "far", "p": "pipe", "-": "-n"}
    assert (found["-n"].size, found["-n"].links) == (6, 1)
    assert found["-n"].modified == int((Path(container.variables["MESOS_SANDBOX"]) / "-n").stat().st_mtime)
    assert [each.name for each in await container.files.browse(RUN, "out/deep")] == []
    assert sorted(each.name for each in await container.files.browse(RUN, "out")) == ["deep", "near", "raw"]


async def test_files_are_read_by_offset(container: Container) -> None:
    whole = bytes(range(256)) * 1024
    assert await container.files.size(RUN, "out/raw") == len(whole)
    for offset, length in ((0, 10), (BLOCK_BYTES - 5, 10), (BLOCK_BYTES, BLOCK_BYTES), (12345, BLOCK_BYTES)):
        assert await container.files.read(RUN, "out/raw", offset, length) == whole[offset : offset + length]
    assert await container.files.read(RUN, "out/raw", len(whole) - 3, 10) == whole[-3:]
    for offset in (len(whole), len(whole) + 1, 10**17):
        assert await container.files.read(RUN, "out/raw", offset, 10) == b""
    assert await container.files.read(RUN, "out/near", 0, 4) == whole[:4]
    assert await container.files.read(RUN, "a b'$(x)", 0, 100) == b"quoted"
    assert await container.files.read(RUN, "-n", 2, 2) == b"ti"
    assert await container.files.read(RUN, ".hidden", 0, 2) == b""
    assert b"".join([piece async for piece in container.files.download(RUN, "out/raw")]) == whole
    assert b"".join([piece async for piece in container.files.download(RUN, ".hidden")]) == b""


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("missing", NotFound, "no file 'missing'"),
        ("far/passwd", NotFound, "no file"),
        ("beside", NotFound, "no file"),
        ("dangling", NotFound, "no file"),
        ("out", NoFile, "it is a folder"),
        ("pipe", NoFile, "no plain file"),
        ("out/raw/x", NotFound, "no file"),
    ],
)
async def test_what_cannot_be_read(container: Container, path: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        await container.files.read(RUN, path, 0, 10)
    with pytest.raises(kind, match=text):
        await anext(container.files.download(RUN, path))


async def test_what_cannot_be_listed(container: Container) -> None:
    for path, kind in (("missing", NotFound), ("far", NotFound), ("out/raw", NoFile)):
        with pytest.raises(kind):
            await container.files.browse(RUN, path)


async def test_what_is_mounted_into_the_sandbox_is_not_shown(container: Container, sandbox: Path) -> None:
    """Neither by its own path nor by a link: who may read files need not be who may read secrets."""
    (sandbox / "etc" / "keys").mkdir(parents=True)
    (sandbox / "etc" / "keys" / "key").write_bytes(b"content of the secret")
    (sandbox / "etc" / "keys2").write_bytes(b"beside it")
    (sandbox / "link").symlink_to("etc/keys/key")
    container.mounts = [
        {"name": "own", "mountPath": "/mnt/mesos/sandbox"},
        {"name": "own", "mountPath": "/mnt/mesos/sandbox/out"},
        {"name": "secrets", "mountPath": "/mnt/mesos/sandbox//etc/keys/"},
        {"name": "secrets", "mountPath": "/etc/other"},
    ]
    for path in ("etc/keys/key", "link", "etc/./keys/key"):
        with pytest.raises(Refused, match="it is mounted into the sandbox"):
            await container.files.read(RUN, path, 0, 100)
    with pytest.raises(Refused, match="it is mounted into the sandbox"):
        await container.files.browse(RUN, "etc/keys")
    assert await container.files.read(RUN, "etc/keys2", 0, 100) == b"beside it"
    assert await container.files.read(RUN, "out/raw", 0, 2) == b"\0\1"


async def test_a_folder_with_too_many_files(container: Container, sandbox: Path) -> None:
    for number in range(MOST_ENTRIES + 1):
        (sandbox / "out" / "deep" / str(number)).touch()
    with pytest.raises(Refused, match="it has over 5,000 files"):
        await container.files.browse(RUN, "out/deep")
    (sandbox / "out" / "deep" / "0").unlink()
    assert len(await container.files.browse(RUN, "out/deep")) == MOST_ENTRIES


async def test_an_image_without_a_program(sandbox: Path, tmp_path: Path) -> None:
    container = Container(sandbox)
    container.variables["PATH"] = str(tmp_path)
    with pytest.raises(Refused, match=r"the image has no readlink$"):
        await container.files.read(RUN, "-n", 0, 1)


async def test_a_pod_without_a_sandbox(sandbox: Path) -> None:
    container = Container(sandbox)
    del container.variables["MESOS_SANDBOX"]
    with pytest.raises(Refused, match="no sandbox: it was launched by an earlier release"):
        await container.files.browse(RUN, "")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        ('OCI runtime exec failed: exec: "/bin/sh": stat /bin/sh: no such file or directory', "no /bin/sh$"),
        ("container not found", "container not found$"),
    ],
)
async def test_a_command_that_does_not_begin(sandbox: Path, failure: str, text: str) -> None:
    container = Container(sandbox)
    container.failure = failure
    with pytest.raises(Refused, match=text):
        await container.files.browse(RUN, "")


async def test_a_container_that_has_ended_is_not_asked(sandbox: Path) -> None:
    container = Container(sandbox)
    container.over = True
    with pytest.raises(Refused, match="its container has ended, and its files with it"):
        await container.files.read(RUN, "-n", 0, 1)
    container.over = None
    with pytest.raises(NotFound, match="no pod"):
        await container.files.browse(RUN, "")
    assert container.commands == 0


async def test_refusals_of_the_api_server(sandbox: Path) -> None:
    container = Container(sandbox)
    container.refusal = ApiError(403, "Forbidden", "may not exec")
    with pytest.raises(Refused, match="may not exec"):
        await container.files.browse(RUN, "")
    container.refusal = Unavailable("gone")
    with pytest.raises(Unavailable, match="gone"):
        await container.files.browse(RUN, "")


async def test_reads_are_bounded(sandbox: Path) -> None:
    container = Container(sandbox)
    reads = [container.files.download(RUN, "out/raw") for _ in range(MOST_READS)]
    for each in reads:
        await anext(each)
    with pytest.raises(Unavailable, match="50 files are read already"):
        await container.files.browse(RUN, "")
    for each in reads:
        await each.aclose()
    async with asyncio.timeout(60):
        while container.files._reads:  # noqa: ASYNC110 - the ends of commands make it hold
            await asyncio.sleep(0)
    assert await container.files.size(RUN, "-n") == 6


@pytest.mark.parametrize("said", [b"1" * 5000, b"1" * 5000 + b"\n", b"x\n", b"", b"-1\ndata", b"\xff" * 100])
async def test_what_no_script_of_ours_says(sandbox: Path, tmp_path: Path, said: bytes) -> None:
    """A task may have another shell in its container."""
    (tmp_path / "said").write_bytes(said)
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    shell.chmod(0o700)
    container = Container(sandbox, str(shell))
    with pytest.raises(Unavailable, match="in an unknown form"):
        await container.files.size(RUN, "x")
    assert await container.files.browse(RUN, "") == []


async def test_no_more_is_read_than_was_asked_for(sandbox: Path, tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\necho 5; seq 1 100000\n")
    shell.chmod(0o700)
    container = Container(sandbox, str(shell))
    assert await container.files.read(RUN, "x", 0, 3) == b"1\n2"
    assert b"".join([piece async for piece in container.files.download(RUN, "x")]) == b"1\n2\n3"


async def test_a_command_that_only_complains_is_given_up(
    sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostmgr.kubernetes.sandboxes.files.READ_SECONDS", 0.05)
    container = Container(sandbox)
    container.complains = True
    for reading in (
        container.files.browse(RUN, ""),
        container.files.read(RUN, "x", 0, 1),
        anext(container.files.download(RUN, "x")),
    ):
        with pytest.raises(Unavailable, match=r"the kubelet does not answer within 0\.05 s"):
            await reading


# Decisions.


@pytest.mark.parametrize(
    ("offset", "length", "found"),
    [
        (0, 0, (0, 0, 0)),
        (0, BLOCK_BYTES, (0, 1, 0)),
        (1, BLOCK_BYTES, (0, 2, 1)),
        (3 * BLOCK_BYTES + 7, 10, (3, 1, 7)),
    ],
)
def test_blocks(offset: int, length: int, found: tuple[int, int, int]) -> None:
    assert blocks(offset, length) == found


def test_paths() -> None:
    assert [inner_path(each) for each in ("", "/", "a//b/", "./a/.")] == ["", "", "a/b", "a"]
    for wrong in ("..", "a/../b", "a\0b"):
        with pytest.raises(NoFile, match="is inaccessible"):
            inner_path(wrong)


def test_mounts_are_those_of_the_task_in_its_sandbox() -> None:
    mounts = [{"name": "s", "mountPath": "/mnt/mesos/sandbox/key"}]
    other = {"name": "proxy", "volumeMounts": [{"name": "s", "mountPath": "/mnt/mesos/sandbox/x"}]}
    spec = {"volumes": [{"name": "s", "secret": {}}], "containers": [other, {"name": "task"}]}
    assert mounts_of({"spec": spec}, "task") == []
    spec["containers"] = [other, {"name": "task", "volumeMounts": mounts}]
    assert mounts_of({"spec": spec}, "task") == ["key"]
    spec["volumes"] = [{"name": "s", "emptyDir": {}}]
    assert mounts_of({"spec": spec}, "task") == []


# The server.


def server(container: Container) -> httpx2.AsyncClient:
    over = lambda pod: container.over if pod == RUN else None  # noqa: E731 - one value
    logs = Logs(container, "peloton", "task", over, lambda: 0.0)  # type: ignore[arg-type]
    sessions = Sessions(container, "peloton", "task", lambda pod: False)  # type: ignore[arg-type]
    app = SandboxServer(logs, container.files, sessions, lambda: "F", PLAIN).app
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://s")


async def test_the_server_answers_as_an_agent(sandbox: Path) -> None:
    (sandbox / "stdout").write_bytes(b"the log counts")
    async with server(Container(sandbox)) as client:
        listing = await client.get("/files/browse", params={"path": FOLDER})
        sizes = {each["path"].removeprefix(f"{FOLDER}/"): each["size"] for each in listing.json()}
        assert (sizes["stdout"], sizes["-n"]) == (4, 6) and LEFT_OUT not in listing.headers
        assert len(sizes) == len(listing.json())
        deep = (await client.get("/files/browse", params={"path": f"{FOLDER}/out"})).json()
        assert {each["path"] for each in deep} == {f"{FOLDER}/out/{name}" for name in ("deep", "near", "raw")}
        raw = {"path": f"{FOLDER}/out/raw"}
        assert (await client.get("/files/read", params=raw)).json() == {"data": "", "offset": 262144}
        read = await client.get("/files/read", params={**raw, "offset": "254", "length": "3"})
        assert read.content == b'{"data": "\xfe\xff\\u0000", "offset": 254}'
        assert (await client.get("/files/download", params=raw)).content == bytes(range(256)) * 1024


@pytest.mark.parametrize(
    ("endpoint", "path", "status"),
    [
        ("read", "/missing", 404),
        ("read", "/out", 400),
        ("read", "", 400),
        ("read", "/../x", 400),
        ("download", "/far/passwd", 404),
        ("download", "/out", 400),
        ("browse", "/..", 400),
        ("browse", "/out/raw", 400),
        ("browse", "/far", 404),
    ],
)
async def test_bad_paths(sandbox: Path, endpoint: str, path: str, status: int) -> None:
    async with server(Container(sandbox)) as client:
        answer = await client.get(f"/files/{endpoint}", params={"path": f"{FOLDER}{path}", "offset": "0"})
        assert answer.status_code == status, answer.text


async def test_the_log_of_an_ended_container_is_there_without_its_files(sandbox: Path) -> None:
    container = Container(sandbox)
    container.over = True
    async with server(container) as client:
        listing = await client.get("/files/browse", params={"path": FOLDER})
        names = {each["path"].rpartition("/")[2] for each in listing.json()}
        assert names == {"stdout", "stderr"}
        assert "its container has ended" in listing.headers[LEFT_OUT]
        answer = await client.get("/files/read", params={"path": f"{FOLDER}/-n", "offset": "0"})
        assert (answer.status_code, "has ended" in answer.text) == (WITHHELD, True)
