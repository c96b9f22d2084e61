"""Logs of tasks and commands beside them, by the API server: served as an agent of Mesos serves them."""
