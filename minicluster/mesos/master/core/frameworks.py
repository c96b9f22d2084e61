"""Frameworks: subscription, failover, loss, teardown, suppression of roles.

Source: recordings ``01-subscribe*``, ``04-offers``, ``06-invalid``, ``08-framework-failover``.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common.agent_link import ResendUpdates, ShutdownFramework
from minicluster.mesos.master.core import events, operator_events
from minicluster.mesos.master.core.allocator import allocate
from minicluster.mesos.master.core.state import CAPABILITY, Framework, Master, Task, is_terminal
from minicluster.mesos.master.core.validation import id_error

MAX_REMOVED = 50
"""How many removed frameworks are remembered, as in Mesos' --max_completed_frameworks."""


def capabilities(info: mesos.FrameworkInfo) -> frozenset[int]:
    """Return the capabilities that a FrameworkInfo declares."""
    return frozenset(item.type for item in info.capabilities)


def roles_of(info: mesos.FrameworkInfo) -> tuple[str, ...]:
    """Return the roles of a FrameworkInfo: ``roles`` with MULTI_ROLE, else the one ``role``."""
    if CAPABILITY.MULTI_ROLE in capabilities(info):
        return tuple(info.roles)
    return (info.role,)


def _role_error(role: str) -> str | None:
    if role == "*":
        return None
    if not role:
        return "Empty role name is invalid"
    for part in role.split("/"):
        if not part:
            return f"Role '{role}' contains two adjacent slashes or starts or ends with one"
        if part in (".", "..", "*"):
            return f"Role component '{part}' is invalid because it is reserved"
        if part.startswith("-"):
            return f"Role component '{part}' is invalid because it starts with a dash"
        if any(char.isspace() or char in "\\/\b\x7f" for char in part):
            return f"Role component '{part}' is invalid because it contains backspace or whitespace"
    return None


def info_error(info: mesos.FrameworkInfo, suppressed: Iterable[str]) -> str | None:
    """Return what is wrong with a FrameworkInfo, in Mesos' words."""
    if CAPABILITY.MULTI_ROLE in capabilities(info):
        if info.HasField("role"):
            return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
        doubled = sorted({role for role in info.roles if list(info.roles).count(role) > 1})
        if doubled:
            return f"'FrameworkInfo.roles' contains duplicate items: {{ {', '.join(doubled)} }}"
    elif info.roles:
        return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
    for role in roles_of(info):
        error = _role_error(role)
        if error is not None:
            return f"'FrameworkInfo.roles' contains invalid role: {error}"
    strange = sorted(set(suppressed) - set(roles_of(info)))
    if strange:
        return f"Suppressed roles {{ {', '.join(strange)} }} are not contained in the set of roles"
    return None


def subscribe(cluster: Master, call: scheduler.Call.Subscribe, stream: str, now: float) -> None:
    """Take a (new) subscription in; a refusal is an ERROR event, after which the stream ends."""
    info = call.framework_info
    error = info_error(info, call.suppressed_roles) or _identity_error(cluster, info)
    if error is not None:
        refuse(cluster, stream, error)
        return
    framework = cluster.frameworks.get(info.id.value) if info.HasField("id") else None
    new = framework is None
    if framework is None:
        framework = _new(cluster, info, now)
    else:
        _take_over(cluster, framework, info, now)
    was_active = framework.active
    _connect(cluster, framework, stream, set(call.suppressed_roles), now)
    if new:
        cluster.counts["messages_register_framework"] += 1
        operator_events.framework_added(cluster, framework)
    else:
        operator_events.framework_updated(cluster, framework)
    for agent in cluster.agents.values():
        if any(framework_id == framework.id for framework_id, _ in agent.tasks):
            cluster.send_to_agent(agent, ResendUpdates(framework.id))
    if not was_active:
        allocate(cluster, now)


def refuse(cluster: Master, stream: str, error: str) -> None:
    """Answer a subscription with an ERROR event and end its stream."""
    cluster.outbox.events.append((stream, events.error(error)))
    cluster.outbox.events.append((stream, None))


def _identity_error(cluster: Master, info: mesos.FrameworkInfo) -> str | None:
    if not info.HasField("id"):
        return None
    error = id_error(info.id.value)
    if error is not None:
        return error
    if info.id.value in cluster.removed_frameworks:
        return "Framework has been removed"
    known = cluster.frameworks.get(info.id.value)
    if known is not None and known.info.principal != info.principal:
        return "Changing framework's principal is not allowed."
    return None


def _new(cluster: Master, info: mesos.FrameworkInfo, now: float) -> Framework:
    kept = mesos.FrameworkInfo()
    kept.CopyFrom(info)
    if not kept.HasField("id"):
        kept.id.value = cluster.new_framework_id()
    framework = Framework(kept.id.value, kept, roles_of(info), capabilities(info), registered=now)
    cluster.frameworks[framework.id] = framework
    return framework


def recover(cluster: Master, info: mesos.FrameworkInfo, now: float) -> Framework:
    """Take a framework in that is known only through an agent's tasks."""
    framework = _new(cluster, info, now)
    framework.recovered = True
    _arm_failover(cluster, framework, now)
    return framework


def _take_over(cluster: Master, framework: Framework, info: mesos.FrameworkInfo, now: float) -> None:
    dropped = set(framework.roles) - set(roles_of(info))
    for offer in list(framework.offers.values()):
        cluster.rescind(offer, notify=offer.role in dropped)
    _drop_inverse_offers(cluster, framework)
    _end_stream(cluster, framework, "Framework failed over")
    _change(framework, info)
    framework.reregistered = now
    framework.recovered = False


def _change(framework: Framework, info: mesos.FrameworkInfo) -> None:
    """Replace the info; the user cannot be changed."""
    kept = mesos.FrameworkInfo()
    kept.CopyFrom(info)
    kept.user = framework.info.user
    kept.id.value = framework.id
    framework.info = kept
    framework.roles = roles_of(info)
    framework.capabilities = capabilities(info)


def _end_stream(cluster: Master, framework: Framework, error: str | None) -> None:
    if framework.stream is None:
        return
    if error is not None:
        cluster.send(framework, events.error(error))
    cluster.outbox.events.append((framework.stream, None))
    cluster.streams.pop(framework.stream, None)
    framework.stream = None


def _connect(cluster: Master, framework: Framework, stream: str, suppressed: set[str], now: float) -> None:
    framework.stream = stream
    framework.active = True
    framework.suppressed = suppressed
    framework.filters.clear()
    framework.connection += 1
    cluster.streams[stream] = framework.id
    cluster.send(framework, events.subscribed(cluster.config, framework.id))
    cluster.send(framework, events.HEARTBEAT)
    _arm_heartbeat(cluster, framework, stream, now + cluster.config.heartbeat_interval)


def _arm_heartbeat(cluster: Master, framework: Framework, stream: str, when: float) -> None:
    def beat(now: float) -> None:
        if framework.stream == stream:
            cluster.send(framework, events.HEARTBEAT)
            _arm_heartbeat(cluster, framework, stream, when + cluster.config.heartbeat_interval)

    cluster.deadlines.at(when, beat)


def disconnected(cluster: Master, stream: str, now: float) -> None:
    """Handle the loss of a stream's connection; the framework has its failover_timeout to come back."""
    framework_id = cluster.streams.pop(stream, None)
    framework = cluster.frameworks.get(framework_id) if framework_id is not None else None
    if framework is None or framework.stream != stream:
        return
    framework.stream = None
    framework.active = False
    for offer in list(framework.offers.values()):
        cluster.drop_offer(offer)
    _drop_inverse_offers(cluster, framework)
    _arm_failover(cluster, framework, now)


def _arm_failover(cluster: Master, framework: Framework, now: float) -> None:
    connection = framework.connection

    def give_up(when: float) -> None:
        still = cluster.frameworks.get(framework.id) is framework
        if still and framework.stream is None and framework.connection == connection:
            remove(cluster, framework, when)

    cluster.deadlines.at(now + framework.info.failover_timeout, give_up)


def _drop_inverse_offers(cluster: Master, framework: Framework) -> None:
    for offer_id in framework.inverse_offers:
        del cluster.inverse_offers[offer_id]
    framework.inverse_offers.clear()
    framework.inverse_filters.clear()


def remove(cluster: Master, framework: Framework, now: float) -> None:
    """Tear a framework down: its tasks are killed without updates, its stream ends."""
    for offer in list(framework.offers.values()):
        cluster.drop_offer(offer)
    _drop_inverse_offers(cluster, framework)
    for task in list(framework.tasks.values()):
        _kill_unheard(cluster, task, now)
    for agent in cluster.agents.values():
        cluster.send_to_agent(agent, ShutdownFramework(framework.id))
    _end_stream(cluster, framework, None)
    framework.active = False
    framework.unregistered = now
    operator_events.framework_removed(cluster, framework)
    del cluster.frameworks[framework.id]
    cluster.removed_frameworks[framework.id] = framework
    while len(cluster.removed_frameworks) > MAX_REMOVED:
        del cluster.removed_frameworks[next(iter(cluster.removed_frameworks))]


def _kill_unheard(cluster: Master, task: Task, now: float) -> None:
    if not is_terminal(task.state):
        task.state = mesos.TASK_KILLED
        text = f"Framework {task.framework_id} removed"
        reason = mesos.TaskStatus.REASON_FRAMEWORK_REMOVED
        status = events.master_status(task.id, task.state, text, reason, now, task.agent_id)
        task.statuses.append(status)
        cluster.count_end(task.state)
        operator_events.task_updated(cluster, task, status)
    cluster.forget_task(task)


def _chosen(framework: Framework, roles: Iterable[str]) -> set[str]:
    chosen = set(roles)
    return chosen & set(framework.roles) if chosen else set(framework.roles)


def revive(cluster: Master, framework: Framework, roles: Iterable[str], now: float) -> None:
    """Lift suppression and filters of roles (none named: all) and offer at once."""
    chosen = _chosen(framework, roles)
    framework.suppressed -= chosen
    for key in [key for key in framework.filters if key[0] in chosen]:
        del framework.filters[key]
    if chosen:
        allocate(cluster, now)


def suppress(framework: Framework, roles: Iterable[str]) -> None:
    """Make no offers for roles (none named: all) until they are revived."""
    framework.suppressed |= _chosen(framework, roles)


def update_info(
    cluster: Master,
    framework: Framework,
    call: scheduler.Call.UpdateFramework,
) -> str | None:
    """Change a framework's info; return why it may not be changed so, or None."""
    info = call.framework_info
    error = info_error(info, call.suppressed_roles) or _unchangeable(framework.info, info)
    if error is not None:
        return error
    gone = set(framework.roles) - set(roles_of(info))
    for offer in [offer for offer in framework.offers.values() if offer.role in gone]:
        cluster.rescind(offer)
    _change(framework, info)
    framework.suppressed = set(call.suppressed_roles)
    operator_events.framework_updated(cluster, framework)
    return None


def _unchangeable(old: mesos.FrameworkInfo, new: mesos.FrameworkInfo) -> str | None:
    if old.principal != new.principal:
        return "Changing framework's principal is not allowed."
    for name in ("user", "checkpoint"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            shown = [str(item).lower() if isinstance(item, bool) else item for item in (before, after)]
            return (
                f"Updating 'FrameworkInfo.{name}' is unsupported; attempted to update from "
                f"'{shown[0]}' to '{shown[1]}'"
            )
    return None
