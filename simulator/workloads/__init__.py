"""Workloads, hosts and pools, read from files."""
