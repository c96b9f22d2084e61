"""Deterministic tests of all daemons together: seeds of faults, invariants after each step, and shrinking."""
