"""Jobs of pods that others have made on a cluster of Kubernetes."""
