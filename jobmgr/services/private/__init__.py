"""The private services of jobmgr."""
