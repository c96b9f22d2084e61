"""The shell around the core: lanes, outbox, recovery, finished jobs."""
