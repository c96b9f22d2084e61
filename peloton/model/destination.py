"""Which cluster the tasks of a job are kept in, as a constraint on the host label `cluster`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from peloton.errors import InvalidArgument
from peloton.model.cluster import LABEL, UNNAMED
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    LabelConstraint,
    both,
    without,
)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where tasks may run."""

    cluster: str | None
    """The name of one cluster, UNNAMED for the one without; None: in any."""

    def __str__(self) -> str:
        if self.cluster is None:
            return "any cluster"
        return f"cluster {self.cluster}" if self.cluster else "the cluster without a name"

    def constraint(self, clusters: Collection[str]) -> Constraint | None:
        """Return what hosts must have; `clusters` are those that there are.

        Hosts of the cluster without a name have no label: those with the label of another are left out.
        """
        if self.cluster is None:
            return None
        if self.cluster:
            return LabelConstraint(Kind.HOST, Condition.EQUAL, (LABEL, self.cluster), 1)
        others = sorted(name for name in clusters if name != UNNAMED)
        parts = [LabelConstraint(Kind.HOST, Condition.LESS_THAN, (LABEL, name), 1) for name in others]
        return parts[0] if len(parts) == 1 else AndConstraint(tuple(parts)) if parts else None


def kept_in(constraint: Constraint | None, wanted: Constraint | None, path: str) -> Constraint | None:
    """Return a constraint with `wanted` in place of what it asked of clusters before.

    Raises InvalidArgument, with `path`, where it names clusters within an OR: only its author knows what is
    meant then.
    """
    try:
        return both(without(constraint, Kind.HOST, LABEL), wanted)
    except ValueError:
        expected = (
            f"no part of an OR that is about the host label {LABEL}: change the constraint in the spec, and "
            "update the job to it"
        )
        raise InvalidArgument(path, str(constraint), expected) from None
