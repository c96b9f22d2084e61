"""Admission of gangs."""
