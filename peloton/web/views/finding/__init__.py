"""One box that finds jobs, tasks, hosts and pools."""
