"""Replay a recorded conversation to our own Mesos and compare all replies."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.contract.mesos.actions import Actions
from tests.contract.mesos.cluster import RecordedCluster
from tests.contract.mesos.conversation import Conversation
from tests.contract.mesos.expectations import Expectations, takes_an_agent
from tests.contract.mesos.matching import Mismatch
from tests.contract.mesos.recording import Scenario, parts


class Player:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, cluster: RecordedCluster) -> None:
        self._scenario = scenario
        self._talk = Conversation(scenario, cluster)
        self._actions = Actions(self._talk)
        self._expectations = Expectations(self._talk)

    async def play(self) -> None:
        """Play everything. Raise Mismatch with the record that differs."""
        before = 0.0
        for number, (record, skipped) in enumerate(parts(self._scenario)):
            if record["kind"] == "request":
                await asyncio.sleep((record["t"] - before) * self._scenario.pace)
            before = record["t"]
            try:
                await self._one(record, skipped)
            except (Mismatch, TimeoutError, EOFError, AssertionError) as error:
                raise Mismatch(
                    f"{self._scenario.name}, line {number + 1}, t={record['t']}: {error!r}"
                ) from error
        self._expectations.nothing_else()

    def close(self) -> None:
        """Hang up everywhere."""
        self._talk.close()

    async def _one(self, record: dict[str, Any], skipped: bool) -> None:
        kind = record["kind"]
        if kind == "note":
            await self._actions.note(record["text"])
            await self._expectations.nodes(record)
        elif kind == "request":
            await self._actions.request(record, skipped)
        elif kind == "reply":
            await self._expectations.reply(record, skipped)
        elif kind == "event" and not (skipped and record.get("type") != "OFFERS"):
            await self._event(record)
        elif kind == "closed":
            await self._expectations.closed(record)

    async def _event(self, record: dict[str, Any]) -> None:
        if record.get("type") == "HEARTBEAT":
            return
        body = self._expectations.body_of(record)
        if self._actions.holding and takes_an_agent(body):
            await self._actions.hold(False)
        await self._expectations.event(record, body)
