"""The Mesos master: its shell around the core."""
