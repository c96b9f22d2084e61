"""Demonstrations on a minicluster."""
