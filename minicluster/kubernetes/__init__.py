"""Kubernetes on one machine: a kubelet that runs pods as processes."""
