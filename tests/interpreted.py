"""A mark for tests that stand in for parts of what is compiled (docs/compiled.md)."""

from __future__ import annotations

import pytest

from peloton.compiled import mode

interpreted = pytest.mark.skipif(
    mode() == "compiled", reason="gives compiled code objects of other classes, or replaces its functions"
)
