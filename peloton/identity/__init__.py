"""Who calls, and what they may call (docs/behaviour/operation.md, Authentication). Knows nothing of gRPC."""
