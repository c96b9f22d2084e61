"""Roles: which methods their users may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from peloton.errors import PermissionDenied
from peloton.identity.duties import needs
from peloton.identity.methods import (
    ACCESS,
    FOR_TASKS,
    HEALTH,
    LOCKDOWN,
    REFLECTION,
    for_daemons_only,
    interface,
    scoped,
    split,
)
from peloton.identity.principal import EVERYTHING, Grant, Kind, Principal, Scope
from peloton.model.ids import parse_mesos_task_id

MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rule `service:method`; each part may end with `*`, and `*` alone matches everything."""

    text: str
    service: str
    method: str

    @staticmethod
    def parse(text: str) -> Pattern:
        """Read a rule. Raises ValueError."""
        service, colon, method = ("*", ":", "*") if text == "*" else text.partition(":")
        if not (colon and service and method) or "*" in service[:-1] + method[:-1] or ":" in method:
            raise ValueError("is not `service:method`, each with a `*` at its end or without, nor `*`")
        return Pattern(text, split(service)[0], method)

    def matches(self, service: str, method: str) -> bool:
        """Return whether the rule is about this method."""
        return _matches(self.service, service) and _matches(self.method, method)

    def matches_any(self, methods: Mapping[str, Iterable[str]]) -> bool:
        """Return whether the rule is about any of these methods, by service."""
        return any(
            _matches(self.service, service) and any(_matches(self.method, each) for each in names)
            for service, names in methods.items()
        )


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


@dataclass(frozen=True, slots=True)
class RoleRules:
    """What a role accepts and rejects."""

    accept: tuple[Pattern, ...]
    reject: tuple[Pattern, ...]
    own: tuple[Pattern, ...] = ()
    """What it accepts for jobs of which the caller is the owner."""
    pools: tuple[str, ...] = ()
    """The subtrees of pools that it is about; empty: all pools, and what is about no pool."""

    def scopes(self, service: str, method: str) -> Grant:
        """Return for what it accepts a call; empty where it does not."""
        if any(pattern.matches(service, method) for pattern in self.accept):
            return (Scope(self.pools),)
        if any(pattern.matches(service, method) for pattern in self.own):
            return (Scope(self.pools, own=True),)
        return ()


def check_known(pattern: Pattern) -> None:
    """Raise ValueError for a rule about no method: one with a misspelled name would reject nothing."""
    if pattern.text != "*" and not pattern.matches_any(interface()):
        raise ValueError("matches no method of any service")


class Access:
    """Decides what principals may call."""

    def __init__(self, roles: Mapping[str, RoleRules]) -> None:
        self._roles = roles
        self._decided: dict[tuple[tuple[str, ...], str], str | Grant] = {}

    def check(self, principal: Principal, path: str) -> Grant:
        """Return for what a principal may make a call. Raises PermissionDenied where for nothing."""
        if principal.kind is Kind.DAEMON:
            _check_duty(principal, path)
            return EVERYTHING
        if principal.kind is Kind.TASK:
            return _own_job(principal, path)
        found = self._found(principal.roles, path)
        if isinstance(found, str):
            raise PermissionDenied(f"{principal} may not call {path.lstrip('/')}: {found}")
        return found

    def administers(self, principal: Principal) -> bool:
        """Return whether a user may do all that operators may, for all of the cluster."""
        return principal.kind is Kind.USER and self._found(principal.roles, LOCKDOWN) == EVERYTHING

    def _found(self, roles: tuple[str, ...], path: str) -> str | Grant:
        found = self._decided.get((roles, path))
        if found is None:
            found = self._decide(roles, *split(path))
            if len(self._decided) < MAX_CACHED:
                self._decided[roles, path] = found
        return found

    def _decide(self, roles: tuple[str, ...], service: str, method: str) -> str | Grant:
        """Return for what a call is granted, or what is missing."""
        if service == ACCESS or service.startswith(REFLECTION):
            return EVERYTHING
        if for_daemons_only(service, method):
            return "it is for daemons only"
        if not roles:
            return "no role is bound to this user"
        rules = [(role, self._roles[role]) for role in roles if role in self._roles]
        for role, rule in rules:
            for pattern in rule.reject:
                if pattern.matches(service, method):
                    return f"the role {role} rejects {pattern.text}"
        found = tuple(dict.fromkeys(scope for _, rule in rules for scope in rule.scopes(service, method)))
        if EVERYTHING[0] in found:
            return EVERYTHING
        if found and scoped(service, method):
            return found
        if found:
            return f"it is about more than {' or '.join(map(str, found))}"
        named = (
            f"the role {roles[0]} does not accept"
            if len(roles) == 1
            else f"none of the roles {', '.join(roles)} accepts"
        )
        return f"{named} {service}:{method}"


def _check_duty(daemon: Principal, path: str) -> None:
    """Raise PermissionDenied where a daemon's role does not need a call. The shared token tells no role."""
    service, method = split(path)
    if not daemon.roles or service == ACCESS:
        return
    if not any(needs(role, service, method) for role in daemon.roles):
        raise PermissionDenied(
            f"{daemon} may not call {path.lstrip('/')}: {daemon.roles[0]} does not need it"
        )


def _own_job(task: Principal, path: str) -> Grant:
    """Return the job of a task, for what tasks may call. Raises PermissionDenied."""
    service, method = split(path)
    job_id = parse_mesos_task_id(task.name).job_id
    if service != ACCESS and method not in FOR_TASKS.get(service, ()):
        raise PermissionDenied(
            f"{task} may not call {path.lstrip('/')}: tasks may get, watch, update and stop their own job, "
            "and read its logs"
        )
    return (Scope(job=job_id),)


def is_open(path: str) -> bool:
    """Return whether everybody may make a call: health checks of load balancers have no credentials."""
    return path.startswith(f"/{HEALTH}/")
