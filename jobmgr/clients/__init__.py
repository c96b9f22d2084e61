"""The ports of a job manager over gRPC: all translation of what it calls for, and of the answers."""
