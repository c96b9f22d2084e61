"""Which pools a call may read and change, and which jobs it may be about."""

from __future__ import annotations

from peloton.errors import PermissionDenied
from peloton.identity.principal import EVERYTHING, below, current, granted, require
from resmgr.core.state.pool import Pool


def visible(pool: Pool) -> bool:
    """Return whether the caller may read a pool: one in its subtrees, or on the way to these."""
    return any(
        not scope.pools or any(below(pool.path, top) or below(top, pool.path) for top in scope.pools)
        for scope in granted()
    )


def require_visible(pool: Pool) -> None:
    """Raise PermissionDenied for a pool that the caller may not read."""
    if not visible(pool):
        raise PermissionDenied(f"{current()} may read {_where()} only: not {pool.path}")


def require_new_child(parent: Pool | None) -> None:
    """Raise PermissionDenied unless the caller may change what is below a pool."""
    if granted() == EVERYTHING or parent is None:
        return
    if not any(scope.holds(parent.path, owned=False) for scope in granted()):
        raise PermissionDenied(f"{current()} may change {_where()} only: not what is below {parent.path}")


def require_change(pool: Pool) -> None:
    """Raise PermissionDenied unless the caller may change a pool.

    The pool to which a role is bound is not its own to change: its parent shares with it.
    """
    if granted() == EVERYTHING:
        return
    if pool.parent is None:
        raise PermissionDenied(f"{current()} may change {_where()} only: not the root")
    require_new_child(pool.parent)


def require_job(pool: Pool) -> None:
    """Raise PermissionDenied for a job in a pool that is not the caller's. Owners are not known here."""
    if granted() != EVERYTHING:
        require(pool.path, "", "the job")


def _where() -> str:
    pools = sorted({top for scope in granted() for top in scope.pools})
    return f"pools below {' and '.join(pools)}" if pools else "own jobs"
