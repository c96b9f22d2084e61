"""Translation between objects of Kubernetes and Peloton's messages: no clock, no calls."""
