"""Runs on hosts: where they are, when they end, and launches that fail."""
