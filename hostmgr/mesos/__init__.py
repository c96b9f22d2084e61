"""The Mesos scheduler driver: what to say and what was heard (pure), and the connections."""
