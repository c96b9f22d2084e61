"""The job manager."""
