"""Entitlement of pools."""
