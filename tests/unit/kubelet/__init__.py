"""The process kubelet."""
