"""Bounds of the texts of a job: what exceeds them is refused, and said."""

from __future__ import annotations

import re
from collections.abc import Iterable

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument

NAME_CHARACTERS = 1024
"""Characters of a name: of a job, its owner, a label's key, a task, a port, a variable."""
VALUE_CHARACTERS = 16 * 1024
"""Characters of a description and of a label's value."""
ARGUMENT_CHARACTERS = 128 * 1024
"""Characters of a command line, an argument, a variable's value: Linux takes no more (MAX_ARG_STRLEN)."""
ENTRIES = 1000
"""Labels, and groups."""


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that reorder the text around them."""


def check_name(path: str, name: str) -> None:
    """Raise InvalidArgument for a name that is too long, or would garble a terminal, a log or a page."""
    check_length(path, name, NAME_CHARACTERS)
    if _CONTROL.search(name):
        raise InvalidArgument(path, name, "a name without control characters")


def check_length(path: str, text: str, most: int) -> None:
    """Raise InvalidArgument for a text that is too long."""
    if len(text) > most:
        shown = f"{text[:40]}…"
        raise InvalidArgument(path, shown, f"at most {most:,} characters long; it has {len(text):,}")


def check_texts(config: job_pb2.JobConfig) -> None:
    """Check the texts of a job itself. Raises InvalidArgument."""
    for name in ("name", "owner", "owningTeam"):
        check_name(name, getattr(config, name))
    check_length("description", config.description, VALUE_CHARACTERS)
    if len(config.ldapGroups) > ENTRIES:
        raise InvalidArgument("ldapGroups", f"{len(config.ldapGroups)} groups", f"at most {ENTRIES:,}")
    for i, group in enumerate(config.ldapGroups):
        check_name(f"ldapGroups[{i}]", group)


def check_label_texts(labels: Iterable[peloton_pb2.Label], path: str) -> None:
    """Check the texts of labels, and their number. Raises InvalidArgument."""
    for i, label in enumerate(labels):
        if i == ENTRIES:
            raise InvalidArgument(path, f"more than {ENTRIES:,} labels", f"a list of at most {ENTRIES:,}")
        check_name(f"{path}[{i}].key", label.key)
        check_length(f"{path}[{i}].value", label.value, VALUE_CHARACTERS)
