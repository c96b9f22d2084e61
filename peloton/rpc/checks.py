"""What requests between daemons are checked for beyond their types, as configs within them are."""

from __future__ import annotations

from typing import Any

from peloton.errors import InvalidArgument
from peloton.required_fields import missing_fields
from peloton.rpc.numbers import require_finite
from peloton.rpc.texts import require_utf8


def checked(message: Any, raw: bytes) -> None:
    """Raise InvalidArgument for what a message, parsed from `raw`, may not have.

    That is a number that is not finite, a required field without a value, or a text that is not UTF-8.
    """
    require_finite(message, raw)
    if missing := missing_fields(message):
        raise InvalidArgument(missing[0], None, "a value; it is a required field")
    require_utf8(message, raw)
