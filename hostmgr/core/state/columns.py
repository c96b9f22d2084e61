"""The columns of all hosts: total and free resources, labels, claim and life.

A row is an agent (two agents on one hostname are two hosts). Amounts are thousandths, in the order of
`peloton.model.resources.KINDS`. Rows of removed agents are used again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hostmgr.core.state.host_pools import PoolOf
from hostmgr.core.state.labels import LabelClasses
from hostmgr.core.state.offers import Free
from hostmgr.core.state.states import CLAIM, LIFE, ClaimCause, ClaimState, LifeCause
from peloton.model.constraint import Label
from peloton.model.host_pool import HOST_POOL
from peloton.model.payload import Opaque
from peloton.model.resources import ZERO, Resources
from peloton.model.states import HostState

CONCURRENT_LAUNCHES = 100
UNKNOWN_PORTS = 1 << 32
"""Counted for an agent whose ports are not known."""
UNKNOWN_LOAD = 100.0
"""The load score of a host that none is known of: as the highest one."""
_FILL = {
    "_free": 0, "_slack": 0, "_ports": 0, "_total": 0, "_total_slack": 0, "_total_ports": 0, "_offers": 0,
    "_ranges": 0, "_class": 0, "_alive": 0, "_starting": 0, "_failing": 0, "_load": 100, "_changed_at": 0,
    "_labelled_at": 0, "_kept": 0, "_claim": int(ClaimState.READY), "_life": int(HostState.UNKNOWN),
}  # fmt: skip
"""The value of each column in a row that is not in use."""

PortRanges = tuple[tuple[int, int], ...]
"""Ports, as ranges with both ends inside."""
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as the master's map has it."""

    id: str
    hostname: str
    labels: tuple[Label, ...] = ()
    total: Resources = ZERO
    slack_cpu: int = 0
    allocated: Resources = ZERO
    allocated_slack_cpu: int = 0
    ip: str = ""
    volumes: frozenset[str] = frozenset()
    """Ids of its persistent volumes."""
    wire: Opaque = field(default=None, compare=False, repr=False)
    """The message that the internal API shows; no decision depends on it."""
    ports: PortRanges | None = None
    """Its ports, free or not; None: not known."""

    def same_host(self, other: Agent) -> bool:
        """Return whether the two are equal except for allocated resources."""
        return (self.labels, self.total, self.slack_cpu, self.ports) == (
            other.labels,
            other.total,
            other.slack_cpu,
            other.ports,
        )


class HostColumns:
    """The columns of all hosts."""

    def __init__(
        self,
        scarce_gpu: bool = True,
        room: int = 64,
        concurrent_launches: int = CONCURRENT_LAUNCHES,
        pool_of: PoolOf | None = None,
    ) -> None:
        """Make an empty table.

        `scarce_gpu`: hosts with GPUs take only tasks that request some. `concurrent_launches`: the number of
        starting runs from which a host takes no more. `pool_of`: the pool of a host, which is its label
        `host_pool`; None: host pools are off.
        """
        self._pool_of = pool_of
        self._own_labels: dict[int, tuple[Label, ...]] = {}
        """By row: the agents' attributes."""
        self._scarce_gpu = scarce_gpu
        self._concurrent_launches = concurrent_launches
        self._starting_on: Counter[str] = Counter()
        """By agent id, also for agents without a row."""
        self._labels = LabelClasses()
        self._row: dict[str, int] = {}
        self._rows_of: dict[str, list[int]] = {}
        self._lives: dict[str, HostState] = {}
        """The state of each host that is not UP, by name: it outlasts the host's agents."""
        self._spare: list[int] = []
        self._used = 0
        self.version = 0
        """Grows whenever a host is added, removed, or changed in more than its free resources."""
        self.agent_ids: list[str] = []
        self.hostnames: list[str] = []
        self._totals: dict[int, tuple[Resources, int]] = {}
        """By row, total resources and revocable CPU, for decisions about one host."""
        self._range_numbers: dict[PortRanges, int] = {(): 0}
        self._loads: Mapping[str, float] = {}
        self._kept_rows: set[int] = set()
        """Rows of which anything is held."""
        self._beyond: set[int] = set()
        """Rows whose offers show more than the map of agents."""
        self._allocate(room)

    def _allocate(self, room: int) -> None:
        """Make the columns, of `room` rows: `_FILL` names all of them."""
        self._free = np.zeros((room, 4), dtype=np.int64)
        self._slack = np.zeros(room, dtype=np.int64)
        self._ports = np.zeros(room, dtype=np.int64)
        self._total = np.zeros((room, 4), dtype=np.int64)
        self._total_slack = np.zeros(room, dtype=np.int64)
        self._total_ports = np.zeros(room, dtype=np.int64)
        self._ranges = np.zeros(room, dtype=np.int32)
        """The ranges of ports of each row, by their number."""
        self._offers = np.zeros(room, dtype=np.int32)
        self._claim = np.full(room, ClaimState.READY, dtype=np.int8)
        self._life = np.full(room, HostState.UNKNOWN, dtype=np.int8)
        self._class = np.zeros(room, dtype=np.int32)
        self._alive = np.zeros(room, dtype=bool)
        self._starting = np.zeros(room, dtype=np.int32)
        self._failing = np.zeros(room, dtype=bool)
        self._load = np.full(room, UNKNOWN_LOAD, dtype=np.float64)
        self._changed_at = np.zeros(room, dtype=np.int64)
        """The version that added the host, or changed its labels or its total resources."""
        self._labelled_at = np.zeros(room, dtype=np.int64)
        """The same without changes of resources."""
        self._kept = np.zeros((room, 6), dtype=np.int64)
        """What is held of each row for instances: the kinds, revocable CPU, ports."""

    # Rows.

    def __len__(self) -> int:
        return len(self._row)

    def row(self, agent_id: str) -> int | None:
        """Return the row of an agent."""
        return self._row.get(agent_id)

    def rows(self) -> Iterable[int]:
        """Return the rows that are in use."""
        return self._row.values()

    def put(self, agent: Agent) -> int:
        """Add or update an agent; return its row."""
        row = self._row.get(agent.id)
        new = row is None
        if row is None:
            row = self._new_row(agent.id, agent.hostname)
        self.version += 1
        self._changed_at[row] = self.version
        self._own_labels[row] = agent.labels
        self._set_labels(row, self.with_pool(agent.hostname, agent.labels), new)
        self._total[row] = agent.total.values()
        self._total_slack[row] = agent.slack_cpu
        ranges = agent.ports or ()
        self._total_ports[row] = UNKNOWN_PORTS if agent.ports is None else _number_of(ranges)
        self._ranges[row] = self._range_numbers.setdefault(ranges, len(self._range_numbers))
        self._totals[row] = (agent.total, agent.slack_cpu)
        self._note_beyond(row, self.free(row))
        return row

    def with_pool(self, hostname: str, own: tuple[Label, ...]) -> tuple[Label, ...]:
        """Return the labels that constraints see: those of the agent and, with host pools, the pool."""
        pool = self.pool_of(hostname)
        if pool is None:
            return own
        return (*(each for each in own if each[0] != HOST_POOL), (HOST_POOL, pool))

    def pool_of(self, hostname: str) -> str | None:
        """Return the host pool of a host; None where host pools are off."""
        return None if self._pool_of is None else self._pool_of(hostname)

    @property
    def pooled(self) -> bool:
        """Return whether host pools are on."""
        return self._pool_of is not None

    def relabel(self, hostname: str) -> None:
        """Take over that a host is in another pool."""
        for row in self._rows_of.get(hostname, ()):
            self.version += 1
            self._set_labels(row, self.with_pool(hostname, self._own_labels[row]))

    def _set_labels(self, row: int, labels: Iterable[Label], new: bool = False) -> None:
        """Set the labels of a host, and that it has others than before where it has, or is new."""
        number = self._labels.number(labels)
        if new or number != self._class[row]:
            self._changed_at[row] = self._labelled_at[row] = self.version
        self._class[row] = number

    def remove(self, agent_id: str) -> None:
        """Remove an agent; its row can be used again."""
        row = self._row.pop(agent_id)
        del self._own_labels[row]
        del self._totals[row]
        same_name = self._rows_of[self.hostnames[row]]
        same_name.remove(row)
        if not same_name:
            del self._rows_of[self.hostnames[row]]
        self.agent_ids[row] = self.hostnames[row] = ""
        self._kept_rows.discard(row)
        self._beyond.discard(row)
        for name, fill in _FILL.items():
            getattr(self, name)[row] = fill
        self._spare.append(row)
        self.version += 1

    def _new_row(self, agent_id: str, hostname: str) -> int:
        if self._spare:
            row = self._spare.pop()
            self.agent_ids[row], self.hostnames[row] = agent_id, hostname
        else:
            row = self._used
            self._used += 1
            self.agent_ids.append(agent_id)
            self.hostnames.append(hostname)
            if row >= len(self._alive):
                self._grow()
        self._row[agent_id] = row
        self._rows_of.setdefault(hostname, []).append(row)
        self._alive[row] = True
        self._starting[row] = self._starting_on[agent_id]
        self._load[row] = self._loads.get(hostname, UNKNOWN_LOAD)
        self._life[row] = self._lives.get(hostname) or LIFE.next(HostState.UNKNOWN, LifeCause.REGISTER)
        return row

    def _grow(self) -> None:
        for name, fill in _FILL.items():
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.full_like(old, fill))))

    # Cells.

    def claim(self, row: int) -> ClaimState:
        """Return the state of the claim on the host."""
        return _CLAIMS[int(self._claim[row])]

    def change_claim(self, row: int, cause: ClaimCause) -> None:
        """Change the claim on the host. Raises IllegalTransition."""
        self._claim[row] = int(CLAIM.next(self.claim(row), cause, self.hostnames[row]))

    def acquire_claims(self, rows: Rows) -> None:
        """Claim hosts. Raises IllegalTransition, changing nothing."""
        if len(rows) == 1:
            self.change_claim(int(rows[0]), ClaimCause.ACQUIRE)
            return
        after = {
            state: CLAIM.next(ClaimState(state), ClaimCause.ACQUIRE, self._first_in(rows, state))
            for state in sorted(set(self._claim[rows].tolist()))
        }
        for state, claimed in after.items():
            self._claim[rows[self._claim[rows] == state]] = claimed

    def _first_in(self, rows: Rows, state: int) -> str:
        """Return the name of the first of these hosts whose claim is in a state."""
        return self.hostnames[int(rows[np.argmax(self._claim[rows] == state)])]

    def settle_claim(self, row: int, reserved: bool, held: bool) -> None:
        """Bring the state of an unclaimed host in line with its reservation and its holds."""
        wanted = ClaimState.RESERVED if reserved else ClaimState.HELD if held else ClaimState.READY
        state = self.claim(row)
        if state in (wanted, ClaimState.PLACING):
            return
        if state is not ClaimState.READY and wanted is not ClaimState.RESERVED:
            self.change_claim(row, ClaimCause.FREE)
        if wanted is not ClaimState.READY:
            self.change_claim(row, ClaimCause.RESERVE if reserved else ClaimCause.HOLD)

    def rows_of(self, hostname: str) -> Sequence[int]:
        """Return the rows of a host's agents."""
        return tuple(self._rows_of.get(hostname, ()))

    def life(self, row: int) -> HostState:
        """Return the state of the host's life."""
        return HostState(int(self._life[row]))

    def life_of(self, hostname: str) -> HostState:
        """Return the state of a host by its name, registered or not; UNKNOWN where nothing is known of it."""
        return self._lives.get(hostname) or (HostState.UP if hostname in self._rows_of else HostState.UNKNOWN)

    def set_life(self, hostname: str, state: HostState) -> None:
        """Set the state of the life of all agents of a host, present and future."""
        if state is HostState.UP:
            self._lives.pop(hostname, None)
        else:
            self._lives[hostname] = state
        for row in self._rows_of.get(hostname, ()):
            self._life[row] = state
        self.version += 1

    def agents_on(self, hostname: str) -> list[str]:
        """Return the ids of the agents of a host that are known."""
        return [self.agent_ids[row] for row in self._rows_of.get(hostname, ())]

    def set_free(self, row: int, free: Free, offers: int) -> None:
        """Set the sums of the row's offers, and their number."""
        normal = free.normal
        self._free[row] = (normal.cpu, normal.memory, normal.disk, normal.gpu)
        self._slack[row] = free.slack_cpu
        if self._note_beyond(row, free):
            # The map of agents is older than the offers.
            self.version += 1
            self._changed_at[row] = self.version
        self._ports[row] = free.ports
        self._offers[row] = offers

    def _note_beyond(self, row: int, free: Free) -> bool:
        """Note and return whether a host has more free than the map of agents shows."""
        whole, slack = self._totals[row]
        if free.slack_cpu > slack or not free.normal.fits(whole):
            self._beyond.add(row)
            return True
        self._beyond.discard(row)
        return False

    def set_kept(self, row: int, kept: Free) -> None:
        """Set what of the row's free resources is held for instances."""
        self._kept[row] = columns_of(kept)
        if self._kept[row].any():
            self._kept_rows.add(row)
        else:
            self._kept_rows.discard(row)

    def starting(self, agent_id: str) -> int:
        """Return how many runs are starting on an agent."""
        return self._starting_on.get(agent_id, 0)

    def add_starting(self, agent_id: str, count: int) -> None:
        """Change how many runs are starting on an agent."""
        self._starting_on[agent_id] += count
        assert self._starting_on[agent_id] >= 0, f"more runs of {agent_id} have started than were starting"
        if not self._starting_on[agent_id]:
            del self._starting_on[agent_id]
        row = self._row.get(agent_id)
        if row is not None:
            self._starting[row] = self._starting_on[agent_id]

    def set_loads(self, scores: Mapping[str, float]) -> None:
        """Set the load scores, 0 to 100, by hostname, in place of all earlier ones."""
        self._loads = scores
        for hostname, rows in self._rows_of.items():
            self._load[rows] = scores.get(hostname, UNKNOWN_LOAD)

    def set_failing(self, agent_id: str, failing: bool) -> None:
        """Set whether the host is passed over because launches fail there."""
        row = self._row.get(agent_id)
        if row is not None:
            self._failing[row] = failing

    def free(self, row: int) -> Free:
        """Return the sums of a host's offers."""
        return Free(Resources(*self._free[row].tolist()), int(self._slack[row]), int(self._ports[row]))

    def total(self, row: int) -> tuple[Resources, int]:
        """Return all resources of the agent, and its revocable CPU."""
        return self._totals[row]

    def listed(self) -> Iterator[tuple[str, ClaimState, tuple[int, ...], tuple[int, ...]]]:
        """Iterate over all hosts by name: with the claim, what is not free, and the total, by kind."""
        names = self.hostnames
        rows = sorted(self._row.values(), key=names.__getitem__)
        total = self._total[rows]
        taken = total - np.minimum(total, self._free[rows])
        claims = map(_CLAIMS.__getitem__, self._claim[rows].tolist())
        each = zip(rows, claims, map(tuple, taken.tolist()), map(tuple, total.tolist()), strict=True)
        return ((names[row], claim, allocated, whole) for row, claim, allocated, whole in each)


def columns_of(room: Free) -> tuple[int, ...]:
    """Return a room in the order of the columns of what is held."""
    return *room.normal.values(), room.slack_cpu, room.ports


_CLAIMS = {int(state): state for state in ClaimState}


def _number_of(ranges: PortRanges) -> int:
    return sum(last - first + 1 for first, last in ranges)
