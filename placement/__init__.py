"""The placement engine: finds hosts for the gangs that resmgr has admitted."""
