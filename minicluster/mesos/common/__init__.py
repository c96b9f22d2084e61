"""Parts that the Mesos master and agent share: their protocol, resources, HTTP, processes."""
