"""The host manager: offers, claims, launches and statuses, over one cluster manager."""

import peloton  # noqa: F401 - it chooses plain or compiled modules, before any is imported
