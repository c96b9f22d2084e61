"""Hosts to try things on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offers import CPU, DISK, GPU, MEMORY, PORTS, Entry, Need, Offer, Range
from hostmgr.core.state.table import HostTable
from peloton.model.constraint import Label
from peloton.model.resources import Resources

UNRESERVED, RESERVED, SLACK, PORT_TEMPLATE = 0, 1, 2, 3


def entries(
    cpu: float = 4,
    memory: float = 1024,
    disk: float = 1000,
    gpu: float = 0,
    reserved_cpu: float = 0,
    slack_cpu: float = 0,
    ports: tuple[Range, ...] = ((31000, 31009),),
) -> tuple[Entry, ...]:
    found = [
        Entry(CPU, UNRESERVED, amount=round(cpu * 1000)),
        Entry(MEMORY, 10, amount=round(memory * 1000)),
        Entry(DISK, 11, amount=round(disk * 1000)),
        Entry(GPU, 12, amount=round(gpu * 1000)),
        Entry(CPU, RESERVED, reserved=True, amount=round(reserved_cpu * 1000)),
        Entry(CPU, SLACK, revocable=True, amount=round(slack_cpu * 1000)),
    ]
    return (*(entry for entry in found if entry.amount), Entry(PORTS, PORT_TEMPLATE, ranges=ports))


def offer(number: int, host: int, **amounts: float) -> Offer:
    return Offer(f"O{number}", f"S{host}", f"host{host}", entries(**amounts))  # type: ignore[arg-type]


def agent(host: int, labels: Iterable[Label] = (), cpu: float = 4, gpu: float = 0) -> Agent:
    return Agent(f"S{host}", f"host{host}", tuple(labels), Resources.of(cpu, 1024, 1000, gpu))


def cluster(count_of_hosts: int, **amounts: float) -> Hosts:
    """Each host with one offer of the same size."""
    hosts = Hosts(HostTable(room=2))
    for host in range(count_of_hosts):
        hosts.add_offer(offer(host, host, **amounts), 0.0)
    return hosts


def ids(prefix: str = "c") -> Iterator[str]:
    return (f"{prefix}{number}" for number in count())


def need(name: str, cpu: float = 1, memory: float = 100, **more: object) -> Need:
    return Need(name, Resources.of(cpu, memory), **more)  # type: ignore[arg-type]
