"""Leases on gangs and placements: they end when their holder is absent or silent (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Collection

from peloton.errors import Fenced
from resmgr.core.state.entities import Holder, Task

OWNED = -1
"""The term of a holder that owns shards of jobs."""
ABSENCE = 2.0
"""Seconds without a call after which a process that is not in the membership counts as absent."""


class Leases:
    """The holders by name and term, and the newest term of each role."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], Holder] = {}
        self._terms: dict[str, int] = {}
        """The newest known term of each role."""

    def __len__(self) -> int:
        return sum(len(holder.tasks) for holder in self._holders.values())

    @property
    def holders(self) -> list[Holder]:
        """The holders, of all roles."""
        return list(self._holders.values())

    def touch(self, name: str, now: float, term: int = 0, owns: bool = False) -> Holder | None:
        """Note a call of this name and term and return its holder.

        One that `owns` shards of jobs holds what it takes by the terms of these, and not by that of a leader.
        Return None for a caller without a name: it gets no lease, and only the time-outs of the states bring
        back what it took. Raises Fenced where the role has a newer leader.
        """
        if not name:
            return None
        role = _role(name)
        if owns:
            term = OWNED
        elif term < self._terms.get(role, 0):
            raise Fenced(f"term {term} of {name} is over, the newest of {role} is {self._terms[role]}")
        else:
            self._terms[role] = term
        holder = self._holders.get((name, term))
        if holder is None:
            holder = self._holders[name, term] = Holder(name, term, now)
        holder.last_seen = max(holder.last_seen, now)
        return holder

    def check(self, holder: Holder | None) -> None:
        """Assert that a holder may lease: leases of one that is forgotten would not end."""
        assert holder is None or self._holders.get((holder.name, holder.term)) is holder, (
            f"the leases of {holder.name} in term {holder.term} are over, and it is to hold more"
        )

    def take(self, holder: Holder | None, task: Task) -> None:
        """Lease a task to a holder; None: to nobody."""
        self.release(task)
        if holder is not None:
            task.holder = holder
            holder.tasks[task] = None

    def release(self, task: Task) -> None:
        """End the task's lease, where it has one."""
        if task.holder is not None:
            task.holder.tasks.pop(task, None)
            task.holder = None

    def expire(self, now: float, silence: float, present: Collection[str] | None = None) -> list[Holder]:
        """Forget and return the holders whose leases are over; their tasks still refer to them.

        It is a holder whose role has a newer leader, that was silent for `silence` seconds, or that is not
        among `present` (None: not known). A call in the last ABSENCE seconds proves presence: the list may be
        a moment old.
        """
        expired = [
            holder
            for holder in self._holders.values()
            if OWNED != holder.term < self._terms.get(_role(holder.name), 0)
            or now - holder.last_seen >= silence
            or (present is not None and holder.name not in present and now - holder.last_seen >= ABSENCE)
        ]
        for holder in expired:
            del self._holders[holder.name, holder.term]
        return expired


def _role(name: str) -> str:
    return name.partition("/")[0]
