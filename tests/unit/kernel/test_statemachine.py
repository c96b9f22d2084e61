"""Tables of states."""

from __future__ import annotations

from enum import IntEnum

import pytest

from peloton.errors import IllegalTransition
from peloton.statemachine import StateMachine


class Light(IntEnum):
    RED = 1
    GREEN = 2


LIGHTS: StateMachine[Light, str] = StateMachine(
    "light", {(Light.RED, "go"): Light.GREEN, (Light.GREEN, "stop"): Light.RED}
)


def test_follows_its_table() -> None:
    assert LIGHTS.next(Light.RED, "go") is Light.GREEN
    assert LIGHTS.allows(Light.GREEN, "stop")
    assert not LIGHTS.allows(Light.GREEN, "go")


def test_illegal_transition_has_its_history() -> None:
    with pytest.raises(IllegalTransition, match="light crossing 7: no go in GREEN; it knows stop"):
        LIGHTS.next(Light.GREEN, "go", "crossing 7")


def test_diagram_matches_the_table() -> None:
    assert LIGHTS.diagram() == "stateDiagram-v2\n    RED --> GREEN: go\n    GREEN --> RED: stop"
