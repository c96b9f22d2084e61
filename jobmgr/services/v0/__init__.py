"""The public v0 services of jobmgr."""
