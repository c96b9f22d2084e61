"""Inputs that nobody would send, and what must hold after them. `python -m tests.fuzz --help`."""
