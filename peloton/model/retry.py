"""Retry rules: what follows the end of a run of a batch job's task, by how and where it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from signal import Signals, strsignal

from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint

MAX_RULES = 20
MAX_RETRIES = 100
"""The most retries that one rule grants an instance."""
MAX_AVOIDED = 20
"""Hosts that the next run of an instance avoids: the last ones."""
SIGNAL_EXIT = 128
"""What shells add to the number of the signal that ended a command, for its exit code."""
SIGNALS: Mapping[str, int] = {each.name: each.value for each in Signals}
"""Numbers of signals by name."""
_BY_TEXT = {(strsignal(number) or "").lower(): number for number in sorted(SIGNALS.values())}
_HOSTNAME = "hostname"


def signal_number(text: str) -> int:
    """Return the number of a signal by its text, such as `Killed`, as agents tell it; 0: it is not known."""
    return _BY_TEXT.get(text.partition(" (core dumped)")[0].strip().lower(), 0)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How and where a run ended."""

    exit_code: int = 0
    """0: none is known."""
    signal: int = 0
    """Number of the signal that ended the command; 0: none did."""
    reason: str = ""
    """Mesos' reason without the prefix REASON_."""
    host: str = ""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """A rule. Conditions that are empty hold; the others must all hold."""

    exit_codes: frozenset[int] = frozenset()
    signals: frozenset[int] = frozenset()
    reasons: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    """Patterns of hostnames."""
    retries: int = 0
    another_host: bool = False

    @property
    def unconditional(self) -> bool:
        """Whether the rule concerns every end."""
        return not (self.exit_codes or self.signals or self.reasons or self.hosts)

    def concerns(self, end: RunEnd) -> bool:
        """Return whether all conditions hold of an end."""
        code = end.exit_code or (SIGNAL_EXIT + end.signal if end.signal else 0)
        return (
            (not self.exit_codes or code in self.exit_codes)
            and (not self.signals or end.signal in self.signals)
            and (not self.reasons or end.reason in self.reasons)
            and (not self.hosts or any(fnmatchcase(end.host, pattern) for pattern in self.hosts))
        )


@dataclass(frozen=True, slots=True)
class RuleEnds:
    """What an instance keeps of the ends of its runs that its retry rules concern."""

    counts: tuple[int, ...] = ()
    """Ends by rule, in the order of the rules."""
    avoided: tuple[str, ...] = ()
    """Hosts that the next runs avoid."""

    @property
    def total(self) -> int:
        """Ends that any rule concerns."""
        return sum(self.counts)

    def of(self, number: int) -> int:
        """Return the ends that a rule concerns."""
        return self.counts[number] if number < len(self.counts) else 0

    def with_end(self, number: int, avoided: str = "") -> RuleEnds:
        """Return these with one more end of a rule, and a host to avoid if one is given."""
        counts = [*self.counts, *[0] * (number + 1 - len(self.counts))]
        counts[number] += 1
        hosts = (*(host for host in self.avoided if host != avoided), avoided) if avoided else self.avoided
        return RuleEnds(tuple(counts), hosts[-MAX_AVOIDED:])


NO_ENDS = RuleEnds()


def first_concerned(rules: Sequence[RetryRule], end: RunEnd) -> int | None:
    """Return the number of the first rule that concerns an end; None: none does."""
    return next((number for number, rule in enumerate(rules) if rule.concerns(end)), None)


def avoiding(constraint: Constraint | None, hosts: Sequence[str]) -> Constraint | None:
    """Return a constraint that also refuses the hosts."""
    if not hosts:
        return constraint
    others = [LabelConstraint(Kind.HOST, Condition.LESS_THAN, (_HOSTNAME, host), 1) for host in hosts]
    return AndConstraint((*others, *(() if constraint is None else (constraint,))))
