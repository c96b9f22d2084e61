"""The shell of a daemon: lifecycle, health, HTTP, logs, metrics, supervision."""
