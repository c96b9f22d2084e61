"""The API of Kubernetes over Peloton."""
