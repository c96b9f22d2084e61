"""Named statements, one file for each part of the store."""
