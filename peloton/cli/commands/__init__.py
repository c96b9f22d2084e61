"""One module per command group; each is imported when one of its commands is called."""
