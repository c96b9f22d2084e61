"""Access to a Kubernetes API server: what hostmgr and the minicluster share."""
