"""Carry out the core's instructions and pull what other daemons report."""
