"""The job manager."""

import peloton  # noqa: F401 - it chooses plain or compiled modules, before any is imported
