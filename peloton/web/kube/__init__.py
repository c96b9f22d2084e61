"""The API of Kubernetes over Peloton: what kubectl and other clients of Kubernetes call."""
