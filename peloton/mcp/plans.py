"""Plans that were shown, each with the token by which it is carried out once. Pure: `now` is an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peloton.errors import Refused, ResourceExhausted
from peloton.model.amounts import duration

if TYPE_CHECKING:
    from peloton.cli.session import Session

SECONDS = 300.0
"""How long a plan may be carried out after it was shown."""
MOST = 1000
"""Plans that are kept, of all users together."""
MOST_OF_USER = 100


@dataclass(frozen=True, slots=True)
class Done:
    """What carrying a plan out has come to."""

    text: str
    job_id: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Something that is to be done, as it was shown. What it does is fixed: `apply` takes a session alone."""

    subject: str
    """What it is about, such as `job ID`."""
    state: str
    """The state of the subject that the plan is about, such as a job's entity version."""
    present: Callable[[Session], str]
    """Reads the same of the subject as it is now."""
    apply: Callable[[Session], Done]


@dataclass(frozen=True, slots=True)
class _Held:
    plan: Plan
    user: str
    until: float


@dataclass(slots=True)
class Plans:
    """The plans that were shown and not carried out. Times are seconds of a monotonic clock."""

    new_token: Callable[[], str]
    seconds: float = SECONDS
    _held: dict[str, _Held] = field(default_factory=dict)

    def add(self, plan: Plan, user: str, now: float) -> str:
        """Keep a plan for the user to whom it is shown; return its token.

        Raises ResourceExhausted where the user has too many plans.
        """
        self._forget(now)
        if sum(held.user == user for held in self._held.values()) >= MOST_OF_USER:
            raise ResourceExhausted(
                f"{MOST_OF_USER} plans are not carried out yet: each ends {duration(self.seconds)} after it "
                "was made"
            )
        while len(self._held) >= MOST:
            del self._held[next(iter(self._held))]
        token = self.new_token()
        self._held[token] = _Held(plan, user, now + self.seconds)
        return token

    def take(self, token: str, user: str, now: float) -> Plan:
        """Return the plan of a token, which counts no longer. Raises Refused where it does not count.

        Another's token is refused as one that does not exist, and stays.
        """
        self._forget(now)
        held = self._held.get(token)
        if held is None or held.user != user:
            raise Refused(
                "no plan has this token: it was carried out, or is older than "
                f"{duration(self.seconds)}, or was shown to another; make the plan again"
            )
        del self._held[token]
        return held.plan

    def _forget(self, now: float) -> None:
        """Forget plans that are over: all have the same time, so the oldest are first."""
        while self._held and next(iter(self._held.values())).until <= now:
            del self._held[next(iter(self._held))]


def carry_out(plan: Plan, session: Session) -> Done:
    """Carry a plan out. Raises Refused where its subject is not as it was, and what its calls raise."""
    present = plan.present(session)
    if present != plan.state:
        raise Refused(
            f"nothing was done: {plan.subject} is not as it was when the plan was made: it was {plan.state}, "
            f"and is {present}; make the plan again"
        )
    return plan.apply(session)
