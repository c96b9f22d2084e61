"""The adapter to Mesos: its scheduler and operator API, and the translation of both."""
