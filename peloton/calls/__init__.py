"""What daemons call of each other: one module for each role that calls."""
