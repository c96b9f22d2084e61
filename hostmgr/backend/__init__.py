"""The port to a cluster manager."""
