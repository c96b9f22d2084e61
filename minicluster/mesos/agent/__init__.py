"""The Mesos agent."""
