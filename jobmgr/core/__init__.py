"""The pure core of jobmgr: events in, changes and instructions out."""
