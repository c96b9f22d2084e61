"""The hosts of host pools, and moves between them."""
