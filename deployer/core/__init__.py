"""Decides what to do next about an installation: pure functions of what is wanted and what there is."""
