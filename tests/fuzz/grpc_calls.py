"""Every method of every daemon, with messages that are made, changed and broken.

After each batch the cluster must still take, admit, place and run a job on a host that no input names.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.message import Message

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.admin.svc import admin_svc_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.client.spec import read_spec
from peloton.identity.methods import interface, split
from peloton.private.resmgr.explain import explain_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from tests.fuzz.daemons import HOSTS, Daemons, Errors, Outcome, called, running
from tests.fuzz.engine import ROOT, Finding, Report, rng_of, where
from tests.fuzz.messages import Corpus, Maker, non_finite, parsed

SURFACE = "gRPC"
AT_ONCE = 16
RENEWED = 3_000
"""Inputs after which there are jobs and pools as in the beginning again."""
DAEMON_LIFE = 25_000
"""Inputs that the same daemons get."""
TWICE = 0.05
"""Part of the inputs that are sent twice at once: a state may change between a check and a write."""
WAITING_SECONDS, LONGEST_SECONDS = 0.02, 30.0
CANARY_SECONDS = 120.0
DEFECTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
SPECIFIED = "Job is not in a terminal state"
"""What v0's Delete answers with INTERNAL, as clients of Peloton expect."""
WAITING = (
    "Wait",
    "Dequeue",
    "Watch",
    "TakePlan",
    "GetPlacements",
    "GetTasksByHostState",
    "GetPreemptibleTasks",
)
"""What the names of methods begin with that may wait as long as their caller does."""
JOB = "/peloton.api.v0.job.JobManager/"
POOL = "/peloton.api.v0.respool.ResourceManager/"
SERVICE = "/peloton.api.v1alpha.job.stateless.svc.JobService/"
UP = host_pb2.HOST_STATE_UP
HOST = "/peloton.api.v0.host.svc.HostService/"
ADMIN = "/peloton.api.v1alpha.admin.svc.AdminService/"
HOSTS_AS_SEEN = (
    f"{HOST}QueryHosts",
    f"{HOST}ListHostPools",
    "/peloton.private.hostmgr.v1alpha.svc.HostManagerService/GetHostCache",
)
"""What tells why a host takes no task."""
TASKS_ON_HOSTS = "/peloton.private.resmgr.ResourceManagerService/GetTasksByHosts"
CANARY = "canary"
HOST_POOLS = {CANARY: "batch_reserved", "host0": "batch_reserved", "host1": "stateless", "host2": "shared"}
"""The pools that hosts are in at first: those of batch jobs, of services, of both."""


def types_of(path: str) -> tuple[type[Message], type[Message]]:
    """Return the types of a method's request and answer."""
    interface()  # imports all messages
    service, name = split(path)
    pool: Any = descriptor_pool.Default()  # type: ignore[no-untyped-call]
    method = pool.FindServiceByName(service).methods_by_name[name]
    return message_factory.GetMessageClass(method.input_type), message_factory.GetMessageClass(
        method.output_type
    )


class Calls:
    """Calls of the daemons by path."""

    def __init__(self, daemons: Daemons) -> None:
        self.daemons = daemons
        self._servers = {path: server for server in daemons.servers.values() for path in server._handlers}
        self.paths = sorted(self._servers)
        self.types = {path: types_of(path) for path in self.paths}
        self.streams = {
            path for path, server in self._servers.items() if server.find(path).response_streaming
        }

    def seconds(self, path: str) -> float:
        """Return how long the caller of a method waits."""
        waits = path in self.streams or path.rpartition("/")[2].startswith(WAITING)
        return WAITING_SECONDS if waits else LONGEST_SECONDS

    async def raw(self, path: str, raw: bytes, seconds: float | None = None) -> Outcome:
        return await called(self._servers[path], path, raw, (), seconds or self.seconds(path))

    async def make(self, path: str, request: Message) -> Any:
        """Make a call that must succeed."""
        outcome = await self.raw(path, request.SerializeToString(), 60.0)
        assert outcome.code is grpc.StatusCode.OK, f"{path}: {outcome.code.name}: {outcome.details}"
        return self.types[path][1].FromString(outcome.messages[0])


class Batch:
    """Inputs to the same daemons."""

    def __init__(self, calls: Calls, seed: int, report: Report) -> None:
        self.calls = calls
        self.seed = seed
        self.report = report
        self.corpus = Corpus()
        self.pool = ""
        self._recent: list[str] = []
        self._slowest: Counter[str] = Counter()

    @property
    def errors(self) -> Errors:
        return self.calls.daemons.errors

    async def prepare(self) -> None:
        """Create the pool of the canary, and what inputs are about."""
        for hostname in HOST_POOLS:
            await self._return_host(hostname)
        self.pool = await self._create_pool(CANARY, 4.0)
        await self.renew()
        self._learn_specs()
        await asyncio.sleep(0.3)  # the daemons call each other about these jobs: those calls are examples
        for path, raws in self.calls.daemons.recorded.items():
            for raw in raws:
                if (message := parsed(self.calls.types[path][0], raw)) is not None:
                    self.corpus.keep(message)
        for word in ("root", "/", "/fuzz"):
            self.corpus.learn("pool", word)
        self.corpus.learn("host", *(name for name in HOSTS if name != CANARY))
        self.corpus.learn("agent", *(f"{name}-S0" for name in HOSTS if name != CANARY))

    async def _create_pool(self, name: str, cpu: float) -> str:
        config = respool_pb2.ResourcePoolConfig(name=name, policy=respool_pb2.PriorityFIFO)
        config.parent.value = "root"
        for kind, amount in (("cpu", cpu), ("memory", 8000.0), ("disk", 8000.0), ("gpu", 0.0)):
            config.resources.add(
                kind=kind, reservation=amount, limit=amount * 4, share=1, type=respool_pb2.ELASTIC
            )
        request = respool_pb2.CreateRequest(config=config)
        answer = await self.calls.make(f"{POOL}CreateResourcePool", request)
        assert answer.result.value or answer.HasField("error"), answer
        self.corpus.keep(request)
        found = await self.calls.make(
            f"{POOL}LookupResourcePoolID",
            respool_pb2.LookupRequest(path=respool_pb2.ResourcePoolPath(value=f"/{name}")),
        )
        return str(found.id.value)

    async def renew(self) -> None:
        """Create a pool and jobs, where there are none."""
        pool = await self._create_pool("fuzz", 8.0)
        self.corpus.learn("pool", pool, "/fuzz")
        for file in ("helloworld_job", "gang_job", "constraint_job", "controller_job", "retry_job"):
            config = read_spec(job_pb2.JobConfig, str(ROOT / f"examples/{file}.yaml"))
            request = job_pb2.CreateRequest(config=config)
            request.id.value, request.config.respoolID.value = str(uuid.uuid4()), pool
            await self._create(f"{JOB}Create", request)
            self.corpus.learn("job", request.id.value)
            self.corpus.learn("task", f"{request.id.value}-0", f"{request.id.value}-0-1")
        for file in ("web_service", "stateful_service"):
            spec = read_spec(stateless_pb2.JobSpec, str(ROOT / f"examples/{file}.yaml"))
            create = stateless_svc_pb2.CreateJobRequest(spec=spec)
            create.job_id.value, create.spec.respool_id.value = str(uuid.uuid4()), pool
            await self._create(f"{SERVICE}CreateJob", create)
            self.corpus.learn("job", create.job_id.value)
            self.corpus.learn("task", f"{create.job_id.value}-0", f"{create.job_id.value}-0-1")
            self.corpus.learn("version", "1-1-1")

    async def _create(self, path: str, request: Any) -> None:
        await self.calls.raw(path, request.SerializeToString())
        self.corpus.keep(request)

    def _learn_specs(self) -> None:
        text = 'kind: HOST condition: CONDITION_EQUAL label { key: "hostname" value: "host0" } requirement: 1'
        for path in self.calls.paths:  # each label constraint, by its own package
            descriptor = self.calls.types[path][0].DESCRIPTOR
            for field in descriptor.fields:
                if field.name == "labelConstraint" and field.message_type is not None:
                    message = message_factory.GetMessageClass(field.message_type)()
                    self.corpus.keep(text_format.Parse(text, message))

    async def run(self, first: int, count: int) -> None:
        """Make calls until all are made or a daemon has ended."""
        for start in range(first, first + count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, first + count))
            begun = time.process_time()
            await asyncio.gather(*(self._one(number) for number in numbers))
            self.report.inputs[SURFACE] += len(numbers)
            if time.process_time() - begun > 5.0:
                self._found(
                    f"a window took {time.process_time() - begun:.0f} s of CPU", start, self._suspects()
                )
            self._check_log(start)
            if self.calls.daemons.ended():
                return
            if start % RENEWED < AT_ONCE:
                await self.unlock()
                await self.renew()

    async def _one(self, number: int) -> None:
        rng = rng_of(SURFACE, self.seed, number)
        path = rng.choice(self.calls.paths)
        kind, answer_kind = self.calls.types[path]
        raw = Maker(rng, self.corpus).request(kind.DESCRIPTOR)
        self._recent = [*self._recent[-2 * AT_ONCE :], f"{path} {raw.hex()[:4000]}"]
        again = self._attempt(path, raw) if rng.random() < TWICE else _no_attempt()
        (what, outcome), (also, _) = await asyncio.gather(self._attempt(path, raw), again)
        what = what or also
        if what:
            self._found(what, number, await self._smallest(path, raw, what))
            return
        assert outcome is not None
        self.report.answers[f"{SURFACE} {outcome.code.name}"] += 1
        if outcome.messages and (answer := parsed(answer_kind, outcome.messages[0])) is not None:
            self.corpus.harvest(answer, path.rpartition("/")[2])
        if path.endswith("/Lockdown"):
            await self.unlock()

    async def _attempt(self, path: str, raw: bytes) -> tuple[str, Outcome | None]:
        """Call; return what is wrong with it, empty for nothing."""
        begun = time.monotonic()
        try:
            outcome = await self.calls.raw(path, raw)
        except Exception as error:  # noqa: BLE001 - what it is for
            return f"{path}: {where(error)} escaped the server: {str(error)[:100]}", None
        self._slowest[path] = max(self._slowest[path], round(1000 * (time.monotonic() - begun)))
        if outcome.code in DEFECTS and not outcome.details.startswith(SPECIFIED):
            return f"{path}: {outcome.code.name}: {outcome.details[:200]}", outcome
        if outcome.timed_out and self.calls.seconds(path) == LONGEST_SECONDS:
            return f"{path}: no answer within {LONGEST_SECONDS:g} s", outcome
        if outcome.code is grpc.StatusCode.OK:
            request = parsed(self.calls.types[path][0], raw)
            if request is not None and non_finite(request):
                return f"{path}: a number that is not finite is taken", outcome
        return "", outcome

    async def _smallest(self, path: str, raw: bytes, what: str) -> str:
        """Leave out parts of a message as long as it shows the same; return it as text."""
        found = parsed(self.calls.types[path][0], raw)
        if found is None:
            return f"{path} {raw.hex()}"
        if (SURFACE, what) not in self.report.findings and "no answer" not in what:
            found = await self._shrink(path, found, what)
        return f"{path} {found.SerializePartialToString().hex()[:20000]}\n{str(found)[:3000]}"

    async def _shrink(self, path: str, message: Message, what: str) -> Message:
        tries, smaller = 0, True
        while smaller and tries < 300:
            smaller = False
            for candidate in _without_one(message):
                tries += 1
                again, _ = await self._attempt(path, candidate.SerializePartialToString())
                if again == what:
                    message, smaller = candidate, True
                    break
                if tries >= 300:
                    break
        return message

    def _suspects(self) -> str:
        return "one of:\n" + "\n".join(self._recent)

    def _found(self, what: str, number: int, repeat: str) -> None:
        self.report.note(Finding(SURFACE, what, f"SEED={self.seed} input {number}: {repeat}"))

    def _check_log(self, number: int) -> None:
        for text in self.errors.take():
            lines = [line for line in text.splitlines() if line.strip()]
            places = [line.strip() for line in lines if 'File "' in line and "/tests/" not in line]
            what = f"logged: {lines[0][:150]} … {lines[-1][:200]} … {places[-1] if places else ''}"
            if (SURFACE, what) not in self.report.findings:
                self._found(what, number, f"{text[-6000:]}\n{self._suspects()}")

    async def unlock(self) -> None:
        """End any lockdown, as an operator does."""
        request = admin_svc_pb2.RemoveLockdownRequest(components=admin_svc_pb2.Component.values())
        await self.calls.make(f"{ADMIN}RemoveLockdown", request)

    async def check(self, number: int) -> None:
        """A new job must run on the host and in the pool that no input names."""
        await self.unlock()
        await self._return_host(CANARY)
        self.pool = await self._create_pool(CANARY, 4.0)  # an input may have deleted it by an id of an answer
        job_id = str(uuid.uuid4())
        config = text_format.Parse(
            f"""name: "canary" owningTeam: "t" instanceCount: 2 respoolID {{ value: "{self.pool}" }}
            defaultConfig {{ command {{ value: "true" }} resource {{ cpuLimit: 0.5 memLimitMb: 32 }}
              constraint {{ type: LABEL_CONSTRAINT labelConstraint {{ kind: HOST condition: CONDITION_EQUAL
                label {{ key: "hostname" value: "{CANARY}" }} requirement: 1 }} }} }}""",
            job_pb2.JobConfig(),
        )
        request = job_pb2.CreateRequest(config=config)
        request.id.value = job_id
        try:
            answer = await self.calls.make(f"{JOB}Create", request)
            assert not answer.HasField("error"), answer
            await self._wait_for(job_id)
        except (AssertionError, TimeoutError) as error:
            self._found(f"blocked: {type(error).__name__} {str(error)[:6000]}", number, self._suspects())

    async def _wait_for(self, job_id: str) -> None:
        request, deadline = job_pb2.GetRequest(), time.monotonic() + CANARY_SECONDS
        request.id.value = job_id
        while True:
            info = (await self.calls.make(f"{JOB}Get", request)).jobInfo
            if info.runtime.state == job_pb2.SUCCEEDED:
                return
            assert time.monotonic() < deadline, await self._why(job_id)
            assert not self.calls.daemons.ended(), self.calls.daemons.ended()
            await asyncio.sleep(0.02)

    async def _why(self, job_id: str) -> str:
        """Return what resmgr and hostmgr know of the canary and its host."""
        path = "/peloton.private.resmgr.explain.ExplainService/ExplainJob"
        request = explain_pb2.ExplainJobRequest()
        request.job_id.value = job_id
        why = [await self.calls.make(path, request)]
        on_host = resmgrsvc_pb2.GetTasksByHostsRequest(hostnames=[CANARY]).SerializeToString()
        for path, raw in (*((each, b"") for each in HOSTS_AS_SEEN), (TASKS_ON_HOSTS, on_host)):
            outcome = await self.calls.raw(path, raw)
            why += [self.calls.types[path][1].FromString(each) for each in outcome.messages]
        complete = host_svc_pb2.CompleteMaintenanceRequest(hostname=CANARY).SerializeToString()
        why.append((await self.calls.raw(f"{HOST}CompleteMaintenance", complete)).details)
        return "the canary does not end: " + "; ".join(" ".join(str(each).split()) for each in why)

    async def _end_maintenance(self, hostname: str) -> None:
        """End the maintenance of a host, once it has gone DOWN where it drains; give up after a while."""
        complete = host_svc_pb2.CompleteMaintenanceRequest(hostname=hostname).SerializeToString()
        deadline = time.monotonic() + CANARY_SECONDS
        while True:
            await self.calls.raw(f"{HOST}CompleteMaintenance", complete)
            hosts = (await self.calls.make(f"{HOST}QueryHosts", host_svc_pb2.QueryHostsRequest())).host_infos
            states = {host.hostname: host.state for host in hosts}
            if states.get(hostname, UP) == UP or time.monotonic() >= deadline:
                return
            await asyncio.sleep(0.02)

    async def _return_host(self, hostname: str) -> None:
        """Bring a host into service and into its pool, as an operator does."""
        await self._end_maintenance(hostname)
        wanted = HOST_POOLS[hostname]
        pools = (await self.calls.make(f"{HOST}ListHostPools", host_svc_pb2.ListHostPoolsRequest())).pools
        if wanted not in [pool.name for pool in pools]:
            await self.calls.make(f"{HOST}CreateHostPool", host_svc_pb2.CreateHostPoolRequest(name=wanted))
        source = next((pool.name for pool in pools if hostname in pool.hosts), "default")
        if source != wanted:
            request = host_svc_pb2.ChangeHostPoolRequest(hostname=hostname, sourcePool=source)
            request.destinationPool = wanted
            await self.calls.make(f"{HOST}ChangeHostPool", request)


def _without_one(message: Message) -> list[Message]:
    """Return the messages that lack one field, or one element, at any depth."""
    found: list[Message] = []
    for field, value in message.ListFields():
        less = type(message)()
        less.CopyFrom(message)
        less.ClearField(field.name)
        found.append(less)
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        parts = list(value) if field.is_repeated else [value]
        for at, part in enumerate(parts[:5]):
            for smaller in _without_one(part):
                less = type(message)()
                less.CopyFrom(message)
                target: Any = getattr(less, field.name)
                (target[at] if field.is_repeated else target).CopyFrom(smaller)
                found.append(less)
    return found


async def _no_attempt() -> tuple[str, Outcome | None]:
    return "", None


async def batch(seed: int, first: int, count: int, report: Report) -> int:
    """Give inputs to new daemons; return how many they took."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        async with running(Path(folder)) as daemons:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: _note_unhandled(report, seed, first, context))
            this = Batch(Calls(daemons), seed, report)
            await this.prepare()
            before = report.inputs[SURFACE]
            await this.run(first, count)
            taken = report.inputs[SURFACE] - before
            if ended := daemons.ended():
                this._found(f"a daemon ended: {ended[:300]}", first + taken, this._suspects())
            else:
                await this.check(first + taken)
                this._check_log(first + taken)
            return taken


def _note_unhandled(report: Report, seed: int, first: int, context: Mapping[str, Any]) -> None:
    error = context.get("exception")
    what = f"unhandled: {context.get('message')}: {where(error) if error else ''} {str(error)[:200]}"
    report.note(Finding(SURFACE, what, f"SEED={seed}, a batch from input {first}"))


def run(seed: int, first: int, count: int) -> Report:
    """Give inputs to all daemons, which start anew now and then."""
    report, begun, end = Report(), time.monotonic(), first + count
    while first < end:
        first += asyncio.run(batch(seed, first, min(DAEMON_LIFE, end - first), report))
    report.spend(SURFACE, time.monotonic() - begun)
    return report
