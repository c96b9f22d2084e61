"""Which hosts are reserved, and under which reservation (`hostmgr.core.reservations.queue`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from peloton.errors import Refused


class ReservedHosts:
    """The reserved hosts. Each is reserved under one id."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the id of an agent that is, or is no longer, reserved."""
        self._changed = changed
        self._holders: dict[str, str] = {}
        """Agent → reservation."""

    def __contains__(self, agent_id: object) -> bool:
        return agent_id in self._holders

    def __len__(self) -> int:
        return len(self._holders)

    def holder(self, agent_id: str) -> str:
        """Return the id of the reservation that a host is reserved under; empty: none."""
        return self._holders.get(agent_id, "")

    def reserve(self, reservation: str, agent_ids: Iterable[str]) -> None:
        """Reserve exactly these hosts under that id; a claim that a host has now ends first.

        Raises Refused where one is reserved under another id, and changes nothing then.
        """
        wanted = dict.fromkeys(agent_ids, reservation)
        for agent_id in wanted:
            other = self._holders.get(agent_id, reservation)
            if other != reservation:
                raise Refused(f"agent {agent_id} is reserved for {other}")
        before = [agent_id for agent_id, holder in self._holders.items() if holder == reservation]
        for agent_id in before:
            if agent_id not in wanted:
                del self._holders[agent_id]
                self._changed(agent_id)
        self._holders.update(wanted)
        for agent_id in wanted:
            self._changed(agent_id)
