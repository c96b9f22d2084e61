"""The archiver: moves batch jobs that ended long ago from the store to JSON lines."""
