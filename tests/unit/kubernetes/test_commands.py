"""How the API server tells the end of a command."""

from __future__ import annotations

import json

import pytest

from peloton.errors import Unavailable
from peloton.kubernetes.commands import end_of


def test_ends() -> None:
    failed = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
    }
    assert end_of(b'{"metadata":{},"status":"Success"}') == (0, "")
    assert end_of(json.dumps(failed).encode()) == (7, "")
    assert end_of(b'{"status":"Failure","message":"no such container"}') == (None, "no such container")


@pytest.mark.parametrize("wrong", [b"", b"[]", b'{"reason":"NonZeroExitCode"}', b'"x"', b"\xff"])
def test_what_is_no_status(wrong: bytes) -> None:
    with pytest.raises(Unavailable):
        end_of(wrong)
