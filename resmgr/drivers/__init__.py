"""Drive the core and connect it to the other daemons and the store."""
