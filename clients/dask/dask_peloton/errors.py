"""Errors of a cluster."""

from __future__ import annotations


class ClusterLost(RuntimeError):
    """The cluster has closed by itself: somebody stopped its job, or no worker could start."""
