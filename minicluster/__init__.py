"""A whole cluster on this machine: its components, their start and end, and its command line."""
