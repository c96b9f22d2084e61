"""gRPC: the server, clients that follow a leader, and the translation of errors to statuses and back."""
