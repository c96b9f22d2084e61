"""What has happened in the cluster lately."""
