"""The cores of all four daemons on a virtual clock: production decisions, without network or cluster."""
