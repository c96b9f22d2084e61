"""Policies for Peloton. docs/policies.md of Peloton describes how they are written and used."""
