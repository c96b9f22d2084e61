"""Allocate offers: one pass over the agents, one OFFERS event per framework.

Unreserved resources go to the (framework, role) with the smallest dominant share first, reserved ones to
their role only. Nothing is offered that a filter covers, to a suppressed role, or that is too small to run
anything (0.01 cpus or 32 MB, Mesos' MIN_CPUS and MIN_MEM).
"""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.state import (
    CAPABILITY,
    Agent,
    Filter,
    Framework,
    InverseOffer,
    Master,
    Offer,
)

DEFAULT_REFUSE_SECONDS = 5.0
MAX_REFUSE_SECONDS = 365 * 24 * 3600.0
_MIN_MILLI_CPUS = 10
_MIN_MILLI_MEM = 32_000
"""Thousandths of a core and of a MiB: less than both is not offered, as in Mesos."""

Candidate = tuple[float, str, Framework]


def refuse_seconds(filters: mesos.Filters | None) -> float:
    """How long the rest of an offer is not wanted: 5 s by default and for negative values, at most a year."""
    if filters is None or not filters.HasField("refuse_seconds"):
        return DEFAULT_REFUSE_SECONDS
    wanted = filters.refuse_seconds
    if not wanted >= 0:
        return DEFAULT_REFUSE_SECONDS
    return min(wanted, MAX_REFUSE_SECONDS)


def add_filter(framework: Framework, offer: Offer, left: res.Bundle, seconds: float, now: float) -> None:
    """Remember that a framework refused ``left`` of an offer."""
    if seconds > 0 and left:
        key = (offer.role, offer.agent_id)
        live = [item for item in framework.filters.get(key, ()) if item.until > now]
        live.append(Filter(now + seconds, left))
        framework.filters[key] = live


def _filtered(framework: Framework, role: str, agent: Agent, share: res.Bundle, now: float) -> bool:
    filters = framework.filters.get((role, agent.id))
    if not filters:
        return False
    return any(item.until > now and res.contains(item.resources, share) for item in filters)


def _usable(bundle: res.Bundle) -> bool:
    cpus = mem = 0
    for kind, quantity in bundle.items():
        if kind.name == "cpus" and isinstance(quantity, int):
            cpus += quantity
        elif kind.name == "mem" and isinstance(quantity, int):
            mem += quantity
    return cpus >= _MIN_MILLI_CPUS or mem >= _MIN_MILLI_MEM


def _share(agent: Agent, framework: Framework, role: str) -> res.Bundle:
    revocable = framework.can(CAPABILITY.REVOCABLE_RESOURCES)
    return {
        kind: quantity
        for kind, quantity in agent.free.items()
        if (not kind.reservations or kind.role == role) and (revocable or not kind.revocable)
    }


def _dominant_share(cluster: Master, framework: Framework, totals: dict[str, int]) -> float:
    return max((framework.allocated[name] / total for name, total in totals.items() if total), default=0.0)


def _candidates(cluster: Master) -> list[Candidate]:
    active = [item for item in cluster.frameworks.values() if item.active and item.stream is not None]
    wanting = [(role, item) for item in active for role in item.roles if role not in item.suppressed]
    if len(wanting) < 2:
        return [(0.0, role, item) for role, item in wanting]
    totals: dict[str, int] = {}
    for agent in cluster.agents.values():
        for name, amount in res.scalars(agent.total).items():
            totals[name] = totals.get(name, 0) + amount
    shares = {item.id: _dominant_share(cluster, item, totals) for item in active}
    ranked = [(shares[item.id], role, item) for role, item in wanting]
    return sorted(ranked, key=lambda entry: (entry[0], entry[1], entry[2].id))


def allocate(cluster: Master, now: float, agents: Iterable[Agent] | None = None) -> None:
    """Offer the free resources (of the given agents) to the frameworks that want them."""
    candidates = _candidates(cluster)
    if not candidates:
        return
    made: dict[str, list[Offer]] = {}
    for agent in cluster.agents.values() if agents is None else agents:
        if agent.free and agent.offerable:
            _offer_agent(cluster, agent, candidates, made, now)
    for framework_id, offers in made.items():
        _send(cluster, cluster.frameworks[framework_id], offers, now)
    _send_inverse_offers(cluster, now)


def _offer_agent(
    cluster: Master,
    agent: Agent,
    candidates: list[Candidate],
    made: dict[str, list[Offer]],
    now: float,
) -> None:
    for _, role, framework in candidates:
        if not _usable(agent.free):
            return
        if agent.has_gpus and not framework.can(CAPABILITY.GPU_RESOURCES):
            continue
        share = _share(agent, framework, role)
        if not _usable(share) or _filtered(framework, role, agent, share, now):
            continue
        offer = Offer(cluster.new_offer_id(), framework.id, agent.id, role, share)
        res.subtract(agent.free, share)
        cluster.offers[offer.id] = framework.offers[offer.id] = agent.offers[offer.id] = offer
        made.setdefault(framework.id, []).append(offer)


def offer_message(agent: Agent, framework: Framework, offer: Offer) -> mesos.Offer:
    """Return an offer as it goes to the framework, in the form that it understands."""
    refined = framework.can(CAPABILITY.RESERVATION_REFINEMENT)
    message = mesos.Offer.FromString(_template(agent))
    message.id.value = offer.id
    message.framework_id.value = framework.id
    told_role = offer.role if framework.can(CAPABILITY.MULTI_ROLE) else ""
    message.resources.extend(res.to_messages(offer.resources, refined=refined, role=told_role))
    if told_role:
        message.allocation_info.role = told_role
    if agent.unavailability is not None:
        message.unavailability.CopyFrom(agent.unavailability)
    return message


def _template(agent: Agent) -> bytes:
    if not agent.offer_template:
        message = mesos.Offer(hostname=agent.hostname)
        message.agent_id.value = agent.id
        message.url.scheme = "http"
        message.url.address.hostname = agent.hostname
        message.url.address.ip = agent.ip
        message.url.address.port = agent.info.port
        message.url.path = f"/{agent.process}"
        message.attributes.extend(agent.info.attributes)
        agent.offer_template = message.SerializePartialToString()
    return agent.offer_template


def _send(cluster: Master, framework: Framework, offers: list[Offer], now: float) -> None:
    event = scheduler.Event(type=scheduler.Event.OFFERS)
    for offer in offers:
        message = offer_message(cluster.agents[offer.agent_id], framework, offer)
        event.offers.offers.append(message)
    cluster.send(framework, event)
    timeout = cluster.config.offer_timeout
    if timeout is not None:
        ids = [offer.id for offer in offers]
        cluster.deadlines.at(now + timeout, lambda when: _expire(cluster, ids))


def _expire(cluster: Master, offer_ids: list[str]) -> None:
    for offer_id in offer_ids:
        offer = cluster.offers.get(offer_id)
        if offer is not None:
            cluster.rescind(offer)


# --- inverse offers --------------------------------------------------------------------------------


def _holds_tasks(agent: Agent) -> set[str]:
    return {framework_id for framework_id, _ in agent.tasks}


def _wants_inverse(framework: Framework, agent: Agent, now: float) -> bool:
    if framework.stream is None or framework.inverse_filters.get(agent.id, 0.0) > now:
        return False
    return all(item.agent_id != agent.id for item in framework.inverse_offers.values())


def _send_inverse_offers(cluster: Master, now: float) -> None:
    made: dict[str, list[InverseOffer]] = {}
    for agent in cluster.agents.values():
        if agent.unavailability is None:
            continue
        for framework_id in sorted(_holds_tasks(agent)):
            framework = cluster.frameworks.get(framework_id)
            if framework is None or not _wants_inverse(framework, agent, now):
                continue
            offer = InverseOffer(cluster.new_offer_id(), framework.id, agent.id, agent.unavailability)
            cluster.inverse_offers[offer.id] = framework.inverse_offers[offer.id] = offer
            made.setdefault(framework.id, []).append(offer)
    for framework_id, offers in made.items():
        _send_inverse(cluster, cluster.frameworks[framework_id], offers)


def inverse_offer_message(agent: Agent, offer: InverseOffer) -> mesos.InverseOffer:
    """Return an inverse offer as it goes to the framework."""
    template = mesos.Offer()
    template.MergeFromString(_template(agent))
    message = mesos.InverseOffer(url=template.url)
    message.id.value = offer.id
    message.framework_id.value = offer.framework_id
    message.agent_id.value = offer.agent_id
    message.unavailability.CopyFrom(offer.unavailability)
    return message


def _send_inverse(cluster: Master, framework: Framework, offers: list[InverseOffer]) -> None:
    event = scheduler.Event(type=scheduler.Event.INVERSE_OFFERS)
    for offer in offers:
        message = inverse_offer_message(cluster.agents[offer.agent_id], offer)
        event.inverse_offers.inverse_offers.append(message)
    cluster.send(framework, event)


def run_periodically(cluster: Master, now: float) -> None:
    """Allocate at every interval from now on."""

    def tick(when: float) -> None:
        allocate(cluster, when)
        cluster.deadlines.at(when + cluster.config.allocation_interval, tick)

    cluster.deadlines.at(now + cluster.config.allocation_interval, tick)
