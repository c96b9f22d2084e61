"""Rules of daemon jobs. Pure.

Each host has one instance, which runs there; no other host has one. At no time do two runs of the job live on
one agent, whatever leader dies or freezes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.faults.history import DaemonJob, Life

Finding = tuple[str, str]
"""Rule and story."""


def broken_daemons(daemons: Sequence[DaemonJob], lives: Sequence[Life]) -> Iterator[Finding]:
    for daemon in daemons:
        yield from _coverage(daemon)
        yield from _one_on_an_agent(daemon, [life for life in lives if life.run.job == daemon.job])


def _coverage(daemon: DaemonJob) -> Iterator[Finding]:
    on = defaultdict(list)
    for number, (host, state) in sorted(daemon.instances.items()):
        on[host].append(f"{number} {state}")
    for host in daemon.hosts:
        if [each.partition(" ")[2] for each in on[host]] != ["RUNNING"]:
            yield "daemon not on a host", f"{daemon.job} has instances {on[host]} on {host}"
    for host in sorted(on.keys() - set(daemon.hosts)):
        yield "daemon elsewhere", f"{daemon.job} has instances {on[host]} on {host or 'no host'}"


def _one_on_an_agent(daemon: DaemonJob, lives: Iterable[Life]) -> Iterator[Finding]:
    by_agent: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        by_agent[life.agent].append(life)
    for agent, several in by_agent.items():
        for i, first in enumerate(several):
            for second in several[i + 1 :]:
                if second.begin < first.end and first.begin < second.end:
                    yield "daemon twice on a host", f"{first.run} and {second.run} lived at once on {agent}"
