"""What others send: YAML specs of users, RecordIO and messages of Mesos, JSON in ZooKeeper and of agents."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from google.protobuf.message import Message

from hostmgr.drivers.load_sources import scores_from_query
from hostmgr.kubernetes.sandboxes.shell import entries
from hostmgr.mesos.agents import AgentReader
from jobmgr.clients.matching import agent_from
from jobmgr.services.common.agent_listings import directories, files
from jobmgr.services.common.sandbox import address_of
from mesos.v1.master import master_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.client.sandbox import file_data
from peloton.client.spec import parse_spec
from peloton.client.yamltree import SpecError, read_text
from peloton.errors import InvalidArgument, PelotonError
from peloton.membership.interface import Address
from peloton.mesos.codec import MalformedMessage, codec
from peloton.mesos.detector import announced
from peloton.mesos.http import BrokenHttp
from peloton.mesos.operator import OperatorClient
from peloton.mesos.session import Session, SessionBroken
from peloton.mesos.stream import Event, EventDecoder, Redirected, SessionRefused, split_offers
from peloton.mesos.utf8 import replace_invalid_agent_text
from peloton.model.ids import MesosTaskId
from peloton.recordio import MalformedStream, RecordParser, frame
from tests.fuzz import texts, values
from tests.fuzz.engine import ROOT
from tests.unit.hostmgr.test_manager import Fixture

RECORDINGS = ROOT.parent / "shared" / "mesos"
BROKEN = (BrokenHttp, MalformedMessage, MalformedStream, SessionBroken, SessionRefused, Redirected)
"""How the driver ends a subscription, to begin another one."""
Attempt = tuple[str, Callable[[], str]]


# YAML specs.


@cache
def _specs() -> list[tuple[type[Message], bytes]]:
    kinds = {"service": stateless_pb2.JobSpec, "respool": respool_pb2.ResourcePoolConfig}
    found = []
    for file in sorted((ROOT / "examples").glob("*.yaml")):
        kind = next((kinds[each] for each in kinds if each in file.stem), job_pb2.JobConfig)
        found.append((kind, file.read_bytes()))
    return found


YAML = (
    *(
        b"&a [*a]",
        b"&a {k: *a}",
        b"<<: *x",
        b"!!python/object:os.system x",
        b"- " * 100,
        b"? [a]: b",
        b"\t- x",
    ),
    *(b"a: &x [1,1]\nb: [*x,*x]", b".nan", b".inf", b"-.inf", b"1e999", b"0x7fffffffffffffff", b"---\n---\n"),
    *(
        b"12:30:00",
        b"!!binary x",
        b"!!set {a}",
        b"%YAML 9.9\n",
        b"\xff\xfe",
        b"\x00",
        b"'" * 3,
        b"|",
        b">-",
        b"~",
    ),
    *(
        b"{instanceCount: -1}",
        b"{instanceCount: 4294967296}",
        b"[" * 80,
        b"{a: " * 80,
        b"18446744073709551616",
    ),
)


def spec(rng: random.Random) -> Attempt:
    """A spec as `peloton job create` reads it."""
    kind, text = rng.choice(_specs())
    lines = text.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        choice = rng.random()
        if choice < 0.3:
            head, colon, _ = lines[at].partition(b":")
            lines[at] = head + colon + b" " + rng.choice(YAML)
        elif choice < 0.5:
            lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)] + rng.choice(YAML)
        elif choice < 0.7:
            lines.insert(at, rng.choice(lines))
        else:
            lines[at] = b" " * rng.randrange(6) + lines[at].strip()
    raw = b"\n".join(lines)
    raw = values.mutated(rng, raw) if rng.random() < 0.3 else raw

    def attempt() -> str:
        try:
            parse_spec(kind, raw.decode("utf-8-sig"), "spec.yaml")
        except UnicodeDecodeError:
            return _from_file(raw)
        except SpecError:
            return "refused"
        return "taken"

    return f"{kind.__name__} {raw!r}", attempt


def _from_file(raw: bytes) -> str:
    """Bytes that are no text are refused where the file is read."""
    file = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"fuzz-{os.getpid()}-{id(raw)}.yaml"
    file.write_bytes(raw)
    try:
        read_text(str(file))
    except SpecError:
        return "refused"
    finally:
        file.unlink()
    raise AssertionError("bytes that are not UTF-8 are read")


# RecordIO.


def recordio(rng: random.Random) -> Attempt:
    """A stream of records, cut anywhere."""
    records = [rng.randbytes(rng.randrange(30)) for _ in range(rng.randrange(5))]
    whole = b"".join(map(frame, records))
    raw = whole
    if rng.random() < 0.8:
        odd = rng.choice(
            (b"-1\n", b"\n", b"99999999999\n", b"0\n", b" 1\nx", b"+2\nab", b"\xd9\xa1\nx", b"1_0\n", b"5")
        )
        at = rng.randrange(len(raw) + 1)
        raw = values.mutated(rng, raw) if rng.random() < 0.6 else raw[:at] + odd + raw[at:]
    cuts = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(4)))

    def attempt() -> str:
        parser, found = RecordParser(1 << 20), []
        try:
            for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
                found += parser.feed(raw[begin:end])
        except MalformedStream:
            assert raw != whole, "a right stream is refused"
            return "refused"
        assert raw != whole or (found == records and parser.between_records), "records are lost"
        return "taken"

    return f"{raw!r} cut at {cuts}", attempt


# The event stream of Mesos, through decoder, translation and host manager.


@cache
def _streams() -> list[tuple[str, bytes]]:
    found = []
    for folder in sorted(RECORDINGS.iterdir()) if RECORDINGS.is_dir() else []:
        file = folder / "subscribe.raw"
        if file.is_file() and len(raw := file.read_bytes()) < 200_000:
            found.append(("protobuf" if b"x-protobuf" in raw[:600] else "json", raw))
    return found or [("json", _made_stream())]


def _made_stream() -> bytes:
    """A stream for where the recordings are not."""
    subscribed = {"framework_id": {"value": "f-0000"}, "heartbeat_interval_seconds": 15}
    subscribed["master_info"] = {"id": "m1", "ip": 1, "port": 5050}
    record = json.dumps({"type": "SUBSCRIBED", "subscribed": subscribed}).encode()
    body = b"".join(map(frame, [record, *(json.dumps(event).encode() for event in _EVENTS)]))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: s\r\n\r\n"
    return head + b"%x\r\n%b\r\n" % (len(body), body)


JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
_EVENTS: tuple[dict[str, Any], ...] = (
    {
        "type": "OFFERS",
        "offers": {
            "offers": [
                {
                    "id": {"value": "O1"},
                    "framework_id": {"value": "f-0000"},
                    "agent_id": {"value": "S1"},
                    "hostname": "host1",
                    "resources": [
                        {"name": "cpus", "type": "SCALAR", "scalar": {"value": 4.0}, "role": "*"},
                        {"name": "mem", "type": "SCALAR", "scalar": {"value": 1024.0}, "role": "*"},
                        {
                            "name": "ports",
                            "type": "RANGES",
                            "ranges": {"range": [{"begin": 31000, "end": 31009}]},
                        },
                        {
                            "name": "disk",
                            "type": "SCALAR",
                            "scalar": {"value": 99.0},
                            "disk": {"persistence": {"id": "x"}},
                        },
                    ],
                    "attributes": [{"name": "rack", "type": "TEXT", "text": {"value": "r1"}}],
                }
            ]
        },
    },
    {
        "type": "UPDATE",
        "update": {
            "status": {
                "task_id": {"value": f"{JOB}-0-1"},
                "state": "TASK_RUNNING",
                "agent_id": {"value": "S1"},
                "uuid": "AAAAAAAAAAAAAAAAAAAAAA==",
                "timestamp": 1.5,
                "source": "SOURCE_EXECUTOR",
                "healthy": True,
                "message": "x",
                "container_status": {"network_infos": [{"ip_addresses": [{"ip_address": "10.0.0.1"}]}]},
            }
        },
    },
    {"type": "RESCIND", "rescind": {"offer_id": {"value": "O1"}}},
    {"type": "FAILURE", "failure": {"agent_id": {"value": "S1"}, "status": 256}},
    {"type": "ERROR", "error": {"message": "Framework has been removed"}},
    {"type": "HEARTBEAT"},
)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


class Managers:
    """A host manager, another one now and then: what it holds must not grow for ever."""

    def __init__(self) -> None:
        self._left = 0
        self._now: Fixture | None = None

    def take(self) -> Fixture:
        if not self._left or self._now is None:
            self._now, self._left = Fixture(), 500
            _loop().run_until_complete(self._now.subscribe())
        self._left -= 1
        return self._now


_MANAGERS = Managers()


def event(rng: random.Random) -> Attempt:
    """One event as JSON, to the host manager."""
    raw = texts.as_json(rng, rng.choice(_EVENTS))

    def attempt() -> str:
        try:
            found = codec("json").decode(raw, Event)
        except MalformedMessage:
            return "refused"
        stream = EventDecoder(codec("protobuf"), Session(None), 1 << 20)
        session = stream._session
        session.connect(0.0)
        session.on_subscribed("f-0000", 15.0, "m1", 0.0)
        return _delivered(stream, found.SerializePartialToString())

    return repr(raw), attempt


def _delivered(stream: EventDecoder, record: bytes) -> str:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: s\r\n\r\n"
    framed = frame(record)
    try:
        events = stream.feed(head + b"%x\r\n%b\r\n" % (len(framed), framed), 1.0)
        for part in split_offers(events):
            _MANAGERS.take().backend.on_events(part)
    except (*BROKEN, InvalidArgument) as error:
        return type(error).__name__
    return "taken"


def stream(rng: random.Random) -> Attempt:
    """A recorded subscription with a few bytes changed, in pieces."""
    encoding, whole = rng.choice(_streams())
    begin = 0 if rng.random() < 0.7 else rng.randrange(len(whole))
    raw = values.mutated(rng, whole[begin : begin + 20_000])
    cut = rng.randrange(len(raw) + 1)

    def attempt() -> str:
        session = Session(None)
        session.connect(0.0)
        decoder = EventDecoder(codec(cast(Any, encoding)), session, 1 << 20)
        try:
            for piece in (raw[:cut], raw[cut:], b""):
                for part in split_offers(decoder.feed(piece, 1.0)):
                    _MANAGERS.take().backend.on_events(part)
        except (*BROKEN, InvalidArgument) as error:
            return type(error).__name__
        return "taken"

    return f"{encoding} {raw[:3000]!r}", attempt


# Answers of the master's operator API.

_AGENTS = {
    "type": "GET_AGENTS",
    "get_agents": {
        "agents": [
            {
                "agent_info": {
                    "id": {"value": "S1"},
                    "hostname": "host1",
                    "port": 5051,
                    "resources": _EVENTS[0]["offers"]["offers"][0]["resources"],
                    "attributes": [
                        {"name": "rack", "type": "TEXT", "text": {"value": "r1"}},
                        {"name": "n", "type": "SCALAR", "scalar": {"value": 2.5}},
                        {"name": "s", "type": "SET", "set": {"item": ["a"]}},
                    ],
                },
                "active": True,
                "version": "1.12.0",
                "pid": "slave(1)@10.0.0.7:5051",
                "total_resources": _EVENTS[0]["offers"]["offers"][0]["resources"],
                "allocated_resources": _EVENTS[0]["offers"]["offers"][0]["resources"],
            }
        ]
    },
}


class _Answers:
    """An operator client that has got an answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def agents(self) -> Any:
        replace_invalid_agent_text(self._answer.get_agents.agents)
        return self._answer.get_agents


def agents(rng: random.Random) -> Attempt:
    """The map of agents."""
    raw = texts.as_json(rng, _AGENTS)

    def attempt() -> str:
        try:
            answer = codec("json").decode(raw, master_pb2.Response)
            client = cast(OperatorClient, _Answers(answer))
            found = _loop().run_until_complete(AgentReader(client, "peloton").agents())
        except (MalformedMessage, InvalidArgument):
            return "refused"
        hosts = _MANAGERS.take().manager.hosts
        hosts.set_agents(found.agents)
        for each in answer.get_agents.agents:
            address_of(agent_from(each))
        return "taken"

    return repr(raw), attempt


# JSON in ZooKeeper, and of agents.

_ADDRESS = {"hostname": "h", "ip": "10.0.0.1", "http": 5290, "grpc": 5390, "version": "1"}
_MASTER = {"id": "m", "hostname": "h", "address": {"ip": "10.0.0.1", "port": 5050, "hostname": "h"}}


def zookeeper(rng: random.Random) -> Attempt:
    """The node of a leader, or of a Mesos master."""
    if rng.random() < 0.5:
        raw = texts.as_json(rng, _MASTER)
        return f"master {raw!r}", lambda: "taken" if announced(raw) else "refused"
    raw = texts.as_json(rng, _ADDRESS)

    def attempt() -> str:
        try:
            Address.from_json(raw.decode())
        except ValueError:
            return "refused"
        return "taken"

    return f"leader {raw!r}", attempt


_STATE = {
    "flags": {"work_dir": "/w"},
    "frameworks": [
        {"id": "f", "executors": [{"id": f"{JOB}-0-1", "directory": "/d"}], "completed_executors": []}
    ],
    "completed_frameworks": [],
}
_LISTING = [{"path": "/d/stdout", "mode": "-rw-r--r--", "size": 3, "mtime": 1.5}]
_DATA = {"data": "abc", "offset": 0}
_SCORES = {"data": {"resultType": "vector", "result": [{"metric": {"instance": "h:1"}, "value": [1, "50"]}]}}


def agent(rng: random.Random) -> Attempt:
    """Answers of an agent, and of a Prometheus."""
    kinds: dict[str, tuple[Any, Callable[[bytes], object]]] = {
        "state": (_STATE, lambda raw: directories(_loaded(raw), MesosTaskId(f"{JOB}-0-1"), "S1", "a:1")),
        "listing": (_LISTING, lambda raw: files(_loaded(raw), "a:1")),
        "data": (_DATA, file_data),
        "scores": (_SCORES, lambda raw: scores_from_query(raw, "instance", "http://p")),
    }
    name = rng.choice(list(kinds))
    given, read = kinds[name]
    raw = texts.as_json(rng, given)

    def attempt() -> str:
        try:
            read(raw)
        except PelotonError:
            return "refused"
        return "taken"

    return f"{name} {raw!r}", attempt


def _loaded(raw: bytes) -> Any:
    """Load JSON as the client of agents does."""
    from jobmgr.services.common.agent_http import _parsed

    return _parsed("http://a:1", raw)


def listing(rng: random.Random) -> Attempt:
    """What a container says of a folder of its sandbox: its task may have another shell."""
    names = [rng.choice(("a b", "-n", "\u00fc", ".hidden", "x" * 200)) for _ in range(rng.randrange(4))]
    modes = [rng.choice(("81a4", "41ed", "a1ff", "11a4")) for _ in names]
    lines = [f"{mode} 1 0 0 5 -7 ./{name}\n" for mode, name in zip(modes, names, strict=True)]
    whole = "".join(lines).encode()
    odd = rng.choice((b"9" * 5000, b"ffffffff", b"fffffffff", b"\n", b"\xff", "\u0663".encode(), b"./"))
    at = rng.randrange(len(whole) + 1)
    raw = rng.choice((whole, values.mutated(rng, whole), whole[:at] + odd + whole[at:]))

    def attempt() -> str:
        found = [each.name for each in entries(raw)]
        assert raw != whole or found == names, "files are lost"
        return "taken" if found else "refused"

    return f"listing {raw!r}", attempt


SURFACES: dict[str, Callable[[random.Random], Attempt]] = {
    "YAML specs": spec,
    "RecordIO": recordio,
    "Mesos events": event,
    "Mesos streams": stream,
    "Mesos agents": agents,
    "ZooKeeper": zookeeper,
    "agents' answers": agent,
    "listings of containers": listing,
}
