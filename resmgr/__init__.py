"""The resource manager: pools, admission, placements and preemption."""

import peloton  # noqa: F401 - it chooses plain or compiled modules, before any is imported
