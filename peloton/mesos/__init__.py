"""What hostmgr and the minicluster share of Mesos."""
