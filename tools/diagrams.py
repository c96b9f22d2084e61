"""Draw the state machines into docs/architecture.md: `python -m tools.diagrams`.

Each machine is a literal table in the code; the page holds its Mermaid diagram between two markers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostmgr.core.state.states import CLAIM, LIFE
from jobmgr.core.state.job_states import MACHINE as JOB
from jobmgr.core.state.job_states import SERVICE_MACHINE as SERVICE
from jobmgr.core.state.task_states import MACHINE as TASK
from jobmgr.core.workflow.states import MACHINE as WORKFLOW
from peloton.mesos.session import MACHINE as SUBSCRIPTION
from peloton.statemachine import StateMachine
from resmgr.core.state.task_states import STATES as SCHEDULING

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
BEGIN, END = "<!-- state machines: made by `make diagrams` -->", "<!-- end of state machines -->"
MACHINES: Sequence[tuple[str, StateMachine[Any, Any]]] = (
    ("A task in jobmgr", TASK),
    ("A batch job", JOB),
    ("A service", SERVICE),
    ("A workflow of a service", WORKFLOW),
    ("A task in resmgr, from its queue to its host", SCHEDULING),
    ("The claim on a host in hostmgr", CLAIM),
    ("The life of a host", LIFE),
    ("hostmgr's subscription with the Mesos master", SUBSCRIPTION),
)


def section() -> str:
    """Return the diagrams as Markdown, each under its title."""
    parts = (f"### {title}\n\n```mermaid\n{machine.diagram()}\n```" for title, machine in MACHINES)
    return "\n\n".join((BEGIN, *parts, END))


def updated(page: str) -> str:
    """Return the page with the section in its place. Raise ValueError where the markers are missing."""
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page lacks the line {BEGIN!r} or {END!r}")
    return before + section() + after


def main() -> int:
    """Write the page."""
    PAGE.write_text(updated(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
