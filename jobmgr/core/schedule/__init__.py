"""Schedules of jobs: which times get a run."""
