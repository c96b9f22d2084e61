"""A daemon's life: lifecycle, health, HTTP, logs, metrics, supervision."""
