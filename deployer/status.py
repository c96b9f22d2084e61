"""What there is of an installation, and what `apply` would do. Nothing is changed, and no lock is needed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deployer.core.plan import Migrate, RollBack, Start, Step, Stop, foresee
from deployer.core.plan import plan as next_steps
from deployer.core.values import Instance
from deployer.health import situation
from deployer.installation import LED, Installation
from deployer.probes import Answer, Prober
from deployer.record import MIGRATE, Record
from deployer.rendering import wanted_of
from deployer.store import Store, open_store
from deployer.work import tree_of
from peloton.clock import NANOSECONDS, SystemClock
from peloton.membership.factory import membership
from peloton.membership.interface import Role

Answers = dict[str, Answer]


async def planned(installation: Installation) -> list[str]:
    """Return what `apply` would do, a line for each step. Raises PelotonError."""
    async with open_store(installation.zookeeper, installation.name) as store:
        record = await store.load()
        answers = await _ask(installation, record)
    now = _now()
    wanted_record = record.with_wanted(tree_of(installation), now, "")
    fallback = wanted_record.fallback()
    wanted = wanted_of(installation, wanted_record.wanted, fallback)
    found = situation(wanted_record, answers, {name: 0.0 for name, each in answers.items() if each.healthy})
    steps = foresee(wanted, found, now)
    if not steps:
        return ["nothing is to be done: the installation is as it is wanted"]
    return [f"{number}. {_line(step)}" for number, step in enumerate(steps, 1)]


def _line(step: Step) -> str:
    if isinstance(step, Migrate):
        return f"bring the schema of the store up to date: {step.reason}"
    if isinstance(step, Start):
        return f"start one of {step.group}: {step.reason}"
    if isinstance(step, Stop):
        name = f"the new {step.group}" if step.instance.startswith("new-") else step.instance
        return f"end {name}: {step.reason}"
    assert isinstance(step, RollBack)
    return f"go back to revision {step.revision}: {step.reason}"


async def inspected(installation: Installation) -> dict[str, Any]:
    """Return what there is, as `status --json` prints it. Raises PelotonError."""
    async with open_store(installation.zookeeper, installation.name) as store:
        record, deployer = await store.load(), await _deployer(store)
        # What runs is asked as the revision that is wanted says, not as the file does.
        held = record.revision(record.wanted).installation if record.wanted else installation
        answers = await _ask(held, record, versions=True)
    healthy = {name: 0.0 for name, each in answers.items() if each.healthy}
    wanted = wanted_of(held, record.wanted)
    found = situation(record, answers, healthy)
    plan = next_steps(wanted, found, _now())
    return {
        "name": installation.name,
        "deployer": deployer,
        "wanted": record.wanted,
        "went_back": record.went_back,
        "whole": bool(record.wanted) and not record.destroying and plan.whole,
        "waits": [*plan.waits, *([plan.blocked] if plan.blocked else [])],
        "file_is_wanted": bool(record.wanted)
        and record.revision(record.wanted).tree == tree_of(installation),
        "revisions": [
            {
                "number": each.number,
                "at": _time(each.at),
                "by": each.by,
                "version": each.installation.version.name,
                "whole": each.whole,
            }
            for each in record.revisions
        ],
        "daemons": [
            _daemon(record, each, answers) for each in sorted(found.instances, key=lambda e: e.group)
        ],
    }


def _daemon(record: Record, instance: Instance, answers: Answers) -> dict[str, Any]:
    started = record.instances[instance.id]
    answer = answers.get(instance.id, Answer(False))
    state = "ending" if instance.ending else "healthy" if answer.healthy else "not healthy"
    return {
        "name": instance.id,
        "group": instance.group,
        "revision": started.revision,
        "host": started.host,
        "http": f"{started.ip}:{started.ports[0]}",
        "grpc": f"{started.ip}:{started.ports[1]}" if len(started.ports) > 1 else "",
        "since": _time(started.at),
        "version": answer.version,
        "state": state,
        "leads": answer.leads,
        "problem": answer.problem,
    }


def as_lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield what `status` prints."""
    if not found["wanted"]:
        yield f"{found['name']} is not deployed: `peloton deploy apply` does it"
        return
    wanted = next(each for each in found["revisions"] if each["number"] == found["wanted"])
    yield f"{found['name']}: revision {wanted['number']}, {wanted['version']}, wanted by {wanted['by']}"
    if found["went_back"]:
        yield f"  went back to it: {found['went_back']}"
    if not found["file_is_wanted"]:
        yield "  the file is not what is deployed: `peloton deploy plan` shows the difference"
    if found["deployer"]:
        yield f"  {found['deployer']}"
    rows = [
        (each["name"], each["host"], each["http"], each["version"] or "-",
         each["state"] + (", leads" if each["leads"] else ""))
        for each in found["daemons"]
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(4)] if rows else []
    for row in rows:
        yield "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[4]])
    yield from (f"  {each}" for each in found["waits"])


async def _ask(installation: Installation, record: Record, versions: bool = False) -> Answers:
    running = {
        name: (each, _led(installation, each.group))
        for name, each in record.instances.items()
        if each.group != MIGRATE and not each.ending
    }
    if not running:
        return {}
    members = membership(installation.zookeeper)
    try:
        await members.start()
        async with Prober(installation.health, members) as prober:
            return await prober.ask(running, versions)
    finally:
        await members.close()


def _led(installation: Installation, group: str) -> Role | None:
    if group not in installation.daemons:
        return None
    role = installation.role_of(group)
    return Role(role) if role in LED else None


async def _deployer(store: Store) -> str:
    holder = await store.holder()
    return holder.told(_now()) if holder is not None else ""


def _now() -> float:
    return SystemClock().wall() / NANOSECONDS


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
