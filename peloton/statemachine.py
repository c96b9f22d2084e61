"""State machines as one literal table each; a transition that the table does not have raises."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Generic, TypeVar

from peloton.errors import IllegalTransition

S = TypeVar("S", bound=Hashable)
E = TypeVar("E", bound=Hashable)


class StateMachine(Generic[S, E]):
    """A table (state, event) → next state, under a name that errors and diagrams carry."""

    def __init__(self, name: str, table: Mapping[tuple[S, E], S]) -> None:
        self.name = name
        self.table = table

    def next(self, state: S, event: E, subject: str = "") -> S:
        """Return the state after `event`. Raises IllegalTransition, naming the events that are legal."""
        try:
            return self.table[state, event]
        except KeyError:
            known = sorted(_word(e) for s, e in self.table if s == state)
            raise IllegalTransition(
                f"{self.name} {subject}: no {_word(event)} in {_word(state)}; "
                f"it knows {', '.join(known) or 'none'}"
            ) from None

    def allows(self, state: S, event: E) -> bool:
        """Return whether the table has a transition for the event in this state."""
        return (state, event) in self.table

    def diagram(self) -> str:
        """Return the table as a Mermaid state diagram: one arrow from a state to another, with its events."""
        arrows: dict[tuple[S, S], list[str]] = {}
        for (state, event), after in self.table.items():
            arrows.setdefault((state, after), []).append(_word(event))
        lines = [f"    {_word(s)} --> {_word(t)}: {', '.join(events)}" for (s, t), events in arrows.items()]
        return "\n".join(["stateDiagram-v2", *lines])


def _word(value: object) -> str:
    return value.name if isinstance(value, Enum) else str(value)
