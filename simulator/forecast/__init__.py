"""When a job that waits will start: the simulator run forward from the state of a cluster."""
