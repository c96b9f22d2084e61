"""The pure parts of the minicluster's Mesos."""
