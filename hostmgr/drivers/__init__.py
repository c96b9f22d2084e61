"""Background work of hostmgr."""
