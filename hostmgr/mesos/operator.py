"""The master's operator API, as far as hostmgr reads it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

from hostmgr.mesos.codec import Codec, MalformedMessage
from hostmgr.mesos.http import READ_SIZE, Answer, AnswerParser, BrokenHttp, Requests, connect, location
from hostmgr.mesos.utf8 import mend_agents
from mesos.v1.master import master_pb2
from mesos.v1.quota import quota_pb2
from peloton.errors import Unavailable
from peloton.mesos.detector import MasterAddress, MasterDetector

PATH = "/api/v1"
MAX_REDIRECTS = 3
MAX_ANSWER = 512 * 1024 * 1024
Call = master_pb2.Call
Agents = master_pb2.Response.GetAgents
Agent = Agents.Agent


class OperatorClient:
    """One connection a call; it raises Unavailable where it cannot be answered in `timeout` seconds."""

    def __init__(
        self,
        detector: MasterDetector,
        codec: Codec,
        timeout: float = 10.0,
        authorization: str = "",
        tls: ssl.SSLContext | None = None,
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
        """Read the registered agents, and those that a new master expects back."""
        answer = await self._call(Call(type=Call.GET_AGENTS))
        mend_agents(answer.get_agents.agents)
        return answer.get_agents

    async def quotas(self) -> Sequence[quota_pb2.QuotaConfig]:
        """Read the roles' quotas; one that is listed may be without limits."""
        answer = await self._call(Call(type=Call.GET_QUOTA))
        return answer.get_quota.status.configs

    async def _call(self, call: Call) -> master_pb2.Response:
        name = Call.Type.Name(call.type)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._post_to_leader(self._codec.encode(call))
            if answer.status != 200:
                raise BrokenHttp(f"{answer.status} {answer.text[:200]}")
            response = self._codec.decode(b"".join(answer.body), master_pb2.Response)
            if master_pb2.Response.Type.Name(response.type) != name:
                # An empty body is a message of nothing, which must not be taken for "there are none".
                raise BrokenHttp(f"the answer is of another type, {response.type}")
            return response
        except (OSError, MalformedMessage) as error:
            raise Unavailable(f"Mesos {name}: {str(error) or type(error).__name__}") from None

    async def _post_to_leader(self, body: bytes) -> Answer:
        """Send to the leader, following redirects. Raises BrokenHttp after too many of them."""
        master = await self._detector.master()
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._post(master, body)
            if not 300 <= answer.status < 400:
                return answer
            master = location(answer.headers.get("location", ""))
        raise BrokenHttp(f"redirected {MAX_REDIRECTS} times, and then to {master}")

    async def _post(self, master: MasterAddress, body: bytes) -> Answer:
        reader, writer = await connect(master, self._timeout, self._tls)
        try:
            writer.write(Requests(master, PATH, self._headers).post(body))
            parser = AnswerParser(MAX_ANSWER)
            while data := await reader.read(READ_SIZE):
                if done := parser.feed(data):
                    return done[0]
            raise BrokenHttp("the answer was cut short")
        finally:
            writer.close()
