"""gRPC handlers: translate, call, translate back."""
