"""gRPC: the server, clients that follow a leader, and the mapping of errors to statuses and back."""
