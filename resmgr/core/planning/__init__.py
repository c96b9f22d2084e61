"""Plans for gangs that are not enqueued."""
