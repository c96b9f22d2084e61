"""gRPC services: translate requests, call the manager, translate answers."""
