"""The project's own Mesos against recorded conversations with a real one."""
