"""Which hosts have changed, for the watches of operators."""

from __future__ import annotations


class ChangedHosts:
    """Hosts whose offers or labels have changed since they were last taken.

    While nobody watches, nothing is noted, so that it does not grow.
    """

    def __init__(self) -> None:
        self._changed: dict[str, str] = {}
        """Hostnames by agent id."""
        self.watched = False

    def watch(self, watched: bool) -> None:
        """Begin to note changes, or end it and forget them."""
        self.watched = watched
        if not watched:
            self._changed = {}

    def note(self, agent_id: str, hostname: str) -> None:
        """Note that a host has changed."""
        if self.watched:
            self._changed[agent_id] = hostname

    def take(self) -> tuple[tuple[str, str], ...]:
        """Return the agent ids and hostnames of the changed hosts, each once, and forget them."""
        changed, self._changed = self._changed, {}
        return tuple(changed.items())
