"""The caller of the present call, as authentication has found it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from peloton.errors import PermissionDenied
from peloton.model.ids import JobId


class Kind(StrEnum):
    """What a principal is."""

    NOBODY = "nobody"
    USER = "user"
    TASK = "task"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a call."""

    name: str
    """Of a user, the name; of a task, the id of its run; of a daemon, `<role>/<id>`; empty for the default
    user and where nobody asks."""
    kind: Kind
    roles: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it as messages name it."""
        if self.kind is Kind.NOBODY:
            return "nobody"
        return f"{self.kind} {self.name}" if self.name else f"the default {self.kind}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The jobs and pools for which a call is granted."""

    pools: tuple[str, ...] = ()
    """Paths of pools, whose subtrees they are; empty for all pools."""
    own: bool = False
    """Whether only jobs of which the caller is the owner."""
    job: JobId = ""
    """The only job; empty for all of them."""

    def holds(self, pool: str, owned: bool, job: JobId = "") -> bool:
        """Return whether it has what is in the pool of a path; an empty path is no pool's.

        `job` is the id of the job that it is about, empty where it is about none.
        """
        if self.job:
            return job == self.job
        return (owned or not self.own) and (not self.pools or any(below(pool, top) for top in self.pools))

    def __str__(self) -> str:
        """Return it as messages name it."""
        if self.job:
            return f"the job {self.job}"
        jobs = "own jobs" if self.own else "jobs"
        return f"{jobs} below {' and '.join(self.pools)}" if self.pools else jobs


def below(pool: str, top: str) -> bool:
    """Return whether a pool is another or in its subtree, by their paths."""
    return bool(pool) and (pool == top or top == "/" or pool.startswith(f"{top}/"))


Grant = tuple[Scope, ...]
"""What a call is granted for: the jobs and pools that any of these has."""
EVERYTHING: Grant = (Scope(),)
NOBODY = Principal("", Kind.NOBODY)
"""The caller where authentication is off (NOOP)."""

_current: ContextVar[Principal] = ContextVar("principal", default=NOBODY)
_granted: ContextVar[Grant] = ContextVar("granted", default=EVERYTHING)
_administers: ContextVar[bool] = ContextVar("administers", default=False)


def current() -> Principal:
    """Return who makes the present call."""
    return _current.get()


def author() -> str:
    """Return who makes the present call, as histories name it; empty where nobody asks."""
    principal = current()
    default = "the default user" if principal.kind is Kind.USER else ""
    return principal.name or default


def granted() -> Grant:
    """Return for what the present call is granted."""
    return _granted.get()


def administers() -> bool:
    """Return whether the caller may do all that operators may, for all of the cluster."""
    return _administers.get()


def enter(principal: Principal, grant: Grant = EVERYTHING, administers: bool = False) -> None:
    """Let the rest of this call be made by a principal. A call has a context of its own."""
    _current.set(principal)
    _granted.set(grant)
    _administers.set(administers)


def require(pool: str, owner: str, what: str) -> None:
    """Raise PermissionDenied unless the present call is granted for a job in a pool with an owner."""
    caller = current()
    owned = bool(caller.name) and owner == caller.name
    if not any(scope.holds(pool, owned) for scope in granted()):
        where = " or ".join(map(str, granted()))
        raise PermissionDenied(f"{caller} may do this to {where} only: {what} is in the pool {pool or '?'}")
