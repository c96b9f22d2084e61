"""Client of the master's operator API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mesos.v1.maintenance import maintenance_pb2
from mesos.v1.master import master_pb2
from mesos.v1.quota import quota_pb2
from peloton.errors import Unavailable
from peloton.mesos.codec import Codec, MalformedMessage
from peloton.mesos.detector import MasterAddress, MasterDetector
from peloton.mesos.http import (
    READ_BYTES,
    BrokenHttp,
    HttpResponse,
    Requests,
    ResponseParser,
    connect,
    location,
)
from peloton.mesos.tls import Tls
from peloton.mesos.utf8 import replace_invalid_agent_text

PATH = "/api/v1"
MAX_REDIRECTS = 3
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
Call = master_pb2.Call
Agents = master_pb2.Response.GetAgents
Agent = Agents.Agent


class OperatorClient:
    """Make calls, each on a connection of its own. Raises Unavailable after `timeout` seconds."""

    def __init__(
        self,
        detector: MasterDetector,
        codec: Codec,
        timeout: float = 10.0,
        authorization: str = "",
        tls: Tls | None = None,
    ) -> None:
        self._detector = detector
        self._codec = codec
        self._timeout = timeout
        self._tls = tls
        self._headers = {
            "Content-Type": codec.content_type,
            "Accept": codec.content_type,
            "Connection": "close",
        }
        if authorization:
            self._headers["Authorization"] = authorization

    async def agents(self) -> Agents:
        """Read the registered agents, and those that a new master expects to register again."""
        answer = await self._call(Call(type=Call.GET_AGENTS))
        replace_invalid_agent_text(answer.get_agents.agents)
        return answer.get_agents

    async def quotas(self) -> Sequence[quota_pb2.QuotaConfig]:
        """Read the quotas of roles; a listed quota may have no limits."""
        answer = await self._call(Call(type=Call.GET_QUOTA))
        return answer.get_quota.status.configs

    async def maintenance_status(self) -> maintenance_pb2.ClusterStatus:
        """Read which machines are scheduled for maintenance, and which are down."""
        return (await self._call(Call(type=Call.GET_MAINTENANCE_STATUS))).get_maintenance_status.status

    async def maintenance_schedule(self) -> maintenance_pb2.Schedule:
        """Read the maintenance schedule."""
        return (await self._call(Call(type=Call.GET_MAINTENANCE_SCHEDULE))).get_maintenance_schedule.schedule

    async def act(self, call: Call) -> None:
        """Make a call whose answer is empty. Raises Unavailable, also where the master refuses it."""
        await self._answer(call)

    async def _call(self, call: Call) -> master_pb2.Response:
        name = Call.Type.Name(call.type)
        answer = await self._answer(call)
        try:
            response = self._codec.decode(b"".join(answer.body), master_pb2.Response)
            if master_pb2.Response.Type.Name(response.type) != name:
                # An empty body decodes as an empty message, which must not be taken for an empty list.
                raise BrokenHttp(f"the answer is of another type, {response.type}")
            return response
        except (OSError, MalformedMessage) as error:
            raise Unavailable(f"Mesos {name}: {str(error) or type(error).__name__}") from None

    async def _answer(self, call: Call) -> HttpResponse:
        """Return an answer of status 200. Raises Unavailable for any other."""
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._post_to_leader(self._codec.encode(call))
            if answer.status != 200:
                raise BrokenHttp(f"{answer.status} {answer.text[:200]}")
        except (OSError, MalformedMessage) as error:
            name = Call.Type.Name(call.type)
            raise Unavailable(f"Mesos {name}: {str(error) or type(error).__name__}") from None
        return answer

    async def _post_to_leader(self, body: bytes) -> HttpResponse:
        """Send to the leader and follow redirects. Raises BrokenHttp after too many."""
        master = await self._detector.master()
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._post(master, body)
            if not 300 <= answer.status < 400:
                return answer
            master = location(answer.headers.get("location", ""))
        raise BrokenHttp(f"redirected {MAX_REDIRECTS} times, and then to {master}")

    async def _post(self, master: MasterAddress, body: bytes) -> HttpResponse:
        reader, writer = await connect(master, self._timeout, self._tls and self._tls())
        try:
            writer.write(Requests(master, PATH, self._headers).post(body))
            parser = ResponseParser(MAX_RESPONSE_BYTES)
            while data := await reader.read(READ_BYTES):
                if done := parser.feed(data):
                    return done[0]
            raise BrokenHttp("the answer was cut short")
        finally:
            writer.close()
