"""What frameworks and the minicluster share of Mesos: the session with the master, its calls and messages."""
