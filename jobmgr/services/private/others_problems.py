"""What the other job managers see that is wrong, where several share the work."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

from peloton.calls.jobmgr import LIST_PROBLEMS
from peloton.model.problems import Problem
from peloton.private.problems import problems_pb2 as pb
from peloton.rpc.peers import Owner, PassedFailure, Peers, Sent

CALL_SECONDS = 6.0
"""A little longer than a part of a job manager may look for what is wrong."""


class OthersProblems:
    """Asks the other job managers."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def told(self, context: Any) -> list[Problem]:
        """Return what others see, for a caller. One that does not tell is one of the problems."""
        metadata = self._peers.metadata_of(context)
        asked = (self._of(each, metadata) for each in self._peers.sessions())
        return list(chain.from_iterable(await asyncio.gather(*asked)))

    async def _of(self, other: Owner, metadata: Sent) -> list[Problem]:
        request = pb.ListProblemsRequest()
        try:
            answer: pb.ListProblemsResponse = await self._peers.call(
                other, LIST_PROBLEMS.path, request, pb.ListProblemsResponse, metadata, CALL_SECONDS
            )
        except PassedFailure as failure:
            return [
                Problem(
                    "warn", f"It is not known what the job manager at {other.target} sees: {failure.text}"
                )
            ]
        return [Problem(each.level, each.text, each.link, each.remedy) for each in answer.problems]
