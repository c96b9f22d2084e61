"""Everything that touches the secrets of a secure cluster: done well, and failed."""

from __future__ import annotations

import base64
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx2
import yaml
from google.protobuf import descriptor_pool, message_factory

from mesos.v1 import mesos_pb2
from minicluster.components import DAEMONS
from minicluster.credentials import CLIENT, PRINCIPAL, https_context
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.apachemesos import apachemesos_pb2
from peloton.identity.methods import for_daemons_only, interface
from peloton.rpc.audit import READING

from .conftest import wait_for
from .leaks import files
from .scanned_cluster import CALLER, MESOS_PRINCIPAL, ROLES, SECONDS, ScannedCluster
from .service_job import ServiceJob

PATH = "/etc/secrets/key"
MOST_PAGES = 60


class Scene(ScannedCluster):
    """The cluster, and what is done with it."""

    # What touches secrets of jobs.

    def config(self, command: str) -> job_pb2.JobConfig:
        config = self.harness.config(command)
        config.defaultConfig.container.type = mesos_pb2.ContainerInfo.MESOS
        return config

    def request(self, config: job_pb2.JobConfig, name: str, path: str = PATH) -> job_pb2.CreateRequest:
        request = job_pb2.CreateRequest(config=config)
        request.secrets.add(path=path).value.data = self.secret(name).encode()
        return request

    def job(self, name: str, command: str, path: str = PATH) -> str:
        """Create a job with the secret of a name."""
        answer = self.told(self.harness.client.job_svc.Create, self.request(self.config(command), name, path))
        assert answer.jobId.value, answer
        self.jobs.append(answer.jobId.value)
        return self.jobs[-1]

    def task_with_a_token(self) -> None:
        """A task that has a token, by which it was seen to call."""
        config = self.config("sleep 600")
        config.defaultConfig.workload.token = True
        answer = self.told(self.harness.client.job_svc.Create, job_pb2.CreateRequest(config=config))
        self.jobs.append(answer.jobId.value)
        self.harness.running(self.jobs[-1])
        held = [path.read_text() for path in self.cluster.directory.glob("mesos/*/meta/secrets/*/*")]
        [token] = [text for text in held if text.startswith(f"peloton-task.{self.jobs[-1]}-0-")]
        self.know("token of a task", token.rpartition(".")[2])
        shown = (("authorization", f"Bearer {token}"),)
        get = job_pb2.GetRequest(id=peloton_pb2.JobID(value=self.jobs[-1])).SerializeToString()
        assert self.call("jobmgr", "/peloton.api.v0.job.JobManager/Get", get, shown)
        for role in ("resmgr", "hostmgr"):
            assert not self.call(role, CALLER, b"", shown)

    def create_wrongly(self) -> None:
        """Creations with secrets that fail: of nobody, of who may not, and of what is not right."""
        path = "/peloton.api.v0.job.JobManager/Create"
        right = self.config("true")
        sent = self.request(right, "secret of a creation by nobody").SerializeToString()
        viewer = self.user("viewer", self.texts["password of viewer"])
        for metadata in ((), self.user("ann", self.secret("wrong password by gRPC")), viewer):
            assert not self.call("jobmgr", path, sent, metadata)
        for wrong in (
            (("peloton-token", self.secret("wrong token of daemons")), ("peloton-instance", "jobmgr/x")),
            (("authorization", f"Bearer {self.secret('wrong bearer token')}"),),
            (("authorization", self.secret("no bearer token at all")),),
        ):
            for role in ROLES:
                assert not self.call(role, CALLER, b"", wrong)
        create = self.harness.client.job_svc.Create
        pool = self.config("true")
        pool.respoolID.value = "no such pool"
        container = self.harness.config("true")
        for config, at in ((pool, PATH), (container, PATH), (right, "no/path"), (right, "/a/../b")):
            answer = self.told(create, self.request(config, "secret of a refused job", at))
            assert isinstance(answer, grpc.RpcError) or answer.HasField("error"), answer
        twice = self.request(right, "secret of a refused job")
        twice.secrets.add(path=PATH).value.data = self.secret("another secret of a refused job").encode()
        self.told(create, twice)
        again = self.request(right, "secret of a job that is there already")
        again.id.value = self.jobs[0]
        self.told(create, again)

    def fail_launches(self) -> None:
        """A secret that cannot be put at its path, one that is lost, and one that was changed."""
        self.harness.ended(self.job("secret of a failed launch", "true", "/stdout"))
        for name, change in (
            ("lost secret", "DELETE FROM secrets WHERE job_id = ?"),
            ("changed secret", "UPDATE secrets SET data = CAST(data || x'00' AS BLOB) WHERE job_id = ?"),
        ):
            job = self.job(name, "sleep 600")
            self.harness.running(job)
            with sqlite3.connect(self.layout.database, timeout=30) as db:
                db.execute(change, (job,))
            request = task_pb2.RestartRequest(jobId=peloton_pb2.JobID(value=job))
            self.told(self.harness.client.task_svc.Restart, request)
            wait_for(partial(self.shows_wrong_secret, job), SECONDS, partial(self.message, job))
            stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
            self.told(self.harness.client.task_svc.Stop, stop)

    def shows_wrong_secret(self, job: str) -> bool:
        return self.message(job).startswith("the secret ")

    def message(self, job: str) -> str:
        return str(self.harness.tasks(job)[0].runtime.message)

    def update_a_service(self) -> ServiceJob:
        """A service whose secret is replaced, once at a version that is not its own."""

        def adjust(spec: stateless_pb2.JobSpec) -> None:
            spec.default_spec.mesos_spec.type = apachemesos_pb2.PodSpec.CONTAINER_TYPE_MESOS

        secret = v1alpha.Secret(path=PATH)
        secret.value.data = self.secret("secret of a service").encode()
        service = ServiceJob(self.harness, 1, adjust, [secret])
        service.await_states(pod_pb2.POD_STATE_RUNNING)
        (held,) = service.get().secrets
        held.value.data = self.secret("new secret of a service").encode()
        right = service.get().job_info.status.version
        for version in (v1alpha.EntityVersion(value="99-1-1"), right):
            request = jobs_pb.ReplaceJobRequest(
                job_id=service.id, version=version, spec=service.spec, secrets=[held]
            )
            self.told(service.jobs.ReplaceJob, request)
        wait_for(lambda: service.run(0) == 2, SECONDS, lambda: str(service.list()))
        service.await_states(pod_pb2.POD_STATE_RUNNING)
        self.jobs.append(service.id.value)
        return service

    # Everything that reads.

    def read_everything(self, job: str) -> int:
        """Call each method that reads, at each daemon, about a job and its pool; return how many answered."""
        ann = self.user("ann", self.secret("password of ann"))
        paths = [
            (f"/{service}/{method}", filled(service, method, job, self.harness.pool))
            for service, methods in interface().items()
            for method in methods
            if method.startswith(READING) and not for_daemons_only(service, method)
        ]
        with ThreadPoolExecutor(8) as threads:
            work = [(role, path, sent) for path, sent in paths for role in ROLES]
            return sum(threads.map(lambda each: bool(self.call(each[0], each[1], each[2], ann)), work))

    def http_ports(self) -> None:
        verify = https_context(self.layout)
        assert verify is not None
        for part in self.cluster.components():
            if part.kind in (*DAEMONS, "web"):
                for page in ("metrics", "health", "version", "none"):
                    url = f"https://{part.addresses['http']}/{page}"
                    self.keep(url, httpx2.get(url, timeout=SECONDS, verify=verify).content)

    def mesos(self) -> None:
        """Agents and master, with right and with wrong credentials."""
        verify = https_context(self.layout)
        assert verify is not None
        verify.load_cert_chain(*self.layout.certificate_of(CLIENT))
        pages = ("state", "flags", "metrics/snapshot", "files/debug", "slaves", "frameworks", "tasks")
        for part in self.cluster.components():
            agent = part.kind == "mesos-agent"
            if not (agent or part.kind == "mesos-master"):
                continue
            right = (
                (PRINCIPAL, self.texts["secret of the agents"])
                if agent
                else (MESOS_PRINCIPAL, self.texts["secret of hostmgr at Mesos"])
            )
            for auth in (None, (right[0], self.secret("wrong secret for Mesos")), right):
                for page in pages:
                    url = f"https://{part.addresses['http']}/{page}"
                    answer = httpx2.get(url, timeout=SECONDS, verify=verify, auth=auth)
                    assert auth == right or answer.status_code in (401, 404), (url, answer)
                    self.keep(url, answer.content)

    def hostmgr_with_a_wrong_secret(self) -> None:
        """A host manager that the master refuses; it leads a membership of its own."""
        file = self.private("wrong-mesos-secret", self.secret("wrong secret of hostmgr") + "\n")
        (part,) = (each for each in self.cluster.components() if each.kind == "hostmgr")
        own = {
            "membership": {"kind": "local", "directory": str(self.folder / "membership")},
            "storage": {"kind": "sqlite", "path": str(self.folder / "other.db")},
            "mesos": {**part.settings["mesos"], "secret_file": str(file)},
            "http_port": 0,
            "grpc_port": 0,
            "audit": "",
        }
        config, log = (
            self.private("hostmgr.yaml", yaml.safe_dump({**part.settings, **own})),
            self.folder / "log",
        )
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "hostmgr", "-c", str(config)], stdout=out, stderr=out
            )
        try:
            wait_for(lambda: "401" in log.read_text(), SECONDS, log.read_text)
        finally:
            process.terminate()
            process.wait(SECONDS)
        self.keep("log of a hostmgr with a wrong secret", log.read_bytes())

    # The command line.

    def peloton(self, auth: Path, *arguments: str) -> int:
        variables = {**self.cluster.urls(), "BASIC_AUTH_CONFIG": str(auth), "COLUMNS": "400"}
        done = subprocess.run(
            [sys.executable, "-m", "peloton.cli", *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            timeout=120,
            check=False,
        )
        self.keep(f"command line {' '.join(arguments[:2])}", done.stdout + done.stderr)
        return done.returncode

    def command_line(self, job: str) -> None:
        right = self.auth_file("ann", self.secret("password of ann"))
        wrong = self.auth_file("wrong", self.secret("wrong password by command line"))
        broken = self.private("broken.yaml", f"username: ann\npassword: [{self.secret('broken file')}\n")
        secret = self.private("secret", self.secret("secret by command line"))
        spec = str(Path(__file__).resolve().parents[2] / "examples" / "secret_job.yaml")
        create = ("job", "create", "/test", spec, "--secret-path", PATH, "--secret-data", f"@{secret}")
        assert self.peloton(right, *create) == 0
        (own,) = re.findall(rb"[0-9a-f-]{36}", self.answers[-1][1])[:1]
        self.jobs.append(own.decode())
        for auth in (wrong, broken):
            assert self.peloton(auth, *create) == 1
        assert self.peloton(right, "job", "create", "/nowhere", *create[3:]) == 1
        for words in (("job", "get", job), ("job", "why", job), ("task", "logs", job, "0")):
            assert self.peloton(right, *words) == 0, self.answers[-1]

    # The web UI.

    def web(self, jobs: Sequence[str]) -> int:
        """Log in wrongly and rightly, and follow the links from pages; return how many pages there were."""
        verify = https_context(self.layout)
        assert verify is not None
        (address,) = self.cluster.web_addresses()
        with httpx2.Client(base_url=f"https://{address}", verify=verify, timeout=SECONDS) as browser:
            self._log_in(browser)
            return self._crawl(browser, [f"/jobs/{job}" for job in jobs])

    def _log_in(self, browser: httpx2.Client) -> None:
        self.keep("page /login", browser.get("/login").content)
        token = browser.cookies["peloton_csrf"]
        for name, status in (("wrong password by web", 401), ("password of ann", 303)):
            form = {"csrf": token, "username": "ann", "password": self.secret(name), "next": "/"}
            answer = browser.post("/login", data=form)
            assert answer.status_code == status, answer.text
            self.keep("answer of a login", answer.content)
        forged = {"csrf": "x", "username": "ann", "password": self.secret("password of a forged form")}
        self.keep("answer to a forged form", browser.post("/login", data=forged).content)
        self.know("session of the web UI", browser.cookies["peloton_session"])
        self.know("session of the web UI, its name", browser.cookies["peloton_session"].partition(".")[0])

    def _crawl(self, browser: httpx2.Client, first: Sequence[str]) -> int:
        ahead, seen = ["/", *first], set[str]()
        while ahead and len(seen) < MOST_PAGES:
            path = ahead.pop(0)
            if path in seen or path.startswith(("/static", "/logout", "/login", "/live")):
                continue
            seen.add(path)
            with browser.stream("GET", path) as answer:
                if answer.headers.get("content-type", "").startswith("text/event-stream"):
                    continue
                content = answer.read()
            assert answer.status_code < 500, (path, content)
            self.keep(f"page {path}", str(answer.headers).encode() + content)
            ahead += [link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"#]*)', answer.text)]
        return len(seen)

    def json_door(self) -> None:
        """Creations by JSON: right, wrong, and by wrong users."""
        verify = https_context(self.layout)
        assert verify is not None
        (address,) = self.cluster.web_addresses()
        url = f"https://{address}/api/peloton.api.v0.job.JobManager/Create"
        ann = ("ann", self.secret("password of ann"))
        data = base64.b64encode(self.secret("secret by JSON").encode()).decode()
        config = {
            "name": "by JSON",
            "instanceCount": 1,
            "respoolID": {"value": self.harness.pool},
            "sla": {"preemptible": True},
            "defaultConfig": {
                "resource": {"cpuLimit": 0.1, "memLimitMb": 32, "diskLimitMb": 8},
                "command": {"shell": True, "value": "sleep 600"},
                "container": {"type": "MESOS"},
            },
        }
        right = {"config": config, "secrets": [{"path": PATH, "value": {"data": data}}]}
        by_token = {"authorization": f"Bearer {self.secret('wrong bearer token by JSON').replace(' ', '')}"}
        tries: tuple[tuple[Any, Any, dict[str, str]], ...] = (
            (right, ann, {}),
            (right, ("ann", self.secret("wrong password by JSON")), {}),
            (right, None, by_token),
            ({**right, "config": {**config, "instanceCount": 0}}, ann, {}),
        )
        for body, auth, headers in tries:
            answer = httpx2.post(url, json=body, auth=auth, headers=headers, timeout=SECONDS, verify=verify)
            self.keep("answer of the JSON door", answer.content)
            if body is right and auth == ann:
                self.jobs.append(answer.json()["jobId"]["value"])

    def delete_all(self) -> None:
        """Stop and delete all jobs with secrets."""
        for job in self.jobs:
            at = peloton_pb2.JobID(value=job)
            self.told(self.harness.client.task_svc.Stop, task_pb2.StopRequest(jobId=at))
            self.harness.ended(job)
            self.told(self.harness.client.job_svc.Delete, job_pb2.DeleteRequest(id=at))

    def await_empty_sandboxes(self) -> None:
        """Wait until the agents have removed the files of runs that have ended."""
        deadline = time.monotonic() + SECONDS
        while left := [name for name, _ in files(self.layout.mesos) if "/meta/secrets/" in name]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def filled(service: str, method: str, job: str, pool: str) -> bytes:
    """A request about a job: its ids are filled in where the message has a field for them."""
    described = descriptor_pool.Default().FindServiceByName(service)  # type: ignore[no-untyped-call]
    message = message_factory.GetMessageClass(described.methods_by_name[method].input_type)()
    values = {
        "JobID": job,
        "PodName": f"{job}-0",
        "PodID": f"{job}-0-1",
        "TaskID": f"{job}-0",
        "ResourcePoolID": pool,
    }
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.name in values and not field.is_repeated:
            getattr(message, field.name).value = values[field.message_type.name]
    content: bytes = message.SerializeToString()
    return content
