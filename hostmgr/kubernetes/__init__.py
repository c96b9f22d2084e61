"""The backend for Kubernetes: nodes as hosts, and runs as pods that are bound to their nodes."""
