"""The placement engine: finds hosts for the gangs that resmgr has admitted."""

import peloton  # noqa: F401 - it chooses plain or compiled modules, before any is imported
