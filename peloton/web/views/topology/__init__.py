"""Hosts as a tree of places."""
