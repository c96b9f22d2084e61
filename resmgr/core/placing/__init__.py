"""The exchange with placement engines and with jobmgr."""
