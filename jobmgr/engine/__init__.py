"""The shell around the core: the loop, the outbox, recovery, finished jobs."""
