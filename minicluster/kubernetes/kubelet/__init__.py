"""A process kubelet: the pods of one node, each run as a process by the supervisor of the Mesos agent."""
