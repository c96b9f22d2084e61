"""gRPC: translate, call the core, translate back."""
