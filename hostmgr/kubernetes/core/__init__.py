"""What the backend for Kubernetes decides: it takes changes of nodes and pods, and makes no call."""
