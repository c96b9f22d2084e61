"""Checks of job configs before they are stored (docs/behaviour/jobs.md).

A check raises `peloton.errors.InvalidArgument` with the path of the field, its value and what would be right.
"""
