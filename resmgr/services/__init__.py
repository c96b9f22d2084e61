"""gRPC services: translate requests, call the core, translate answers."""
