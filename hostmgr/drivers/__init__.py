"""The manager of a term, and its background work."""
