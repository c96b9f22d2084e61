"""The store: repositories as ports, and their adapters for databases."""

import peloton  # noqa: F401 - it chooses plain or compiled modules, before any is imported
