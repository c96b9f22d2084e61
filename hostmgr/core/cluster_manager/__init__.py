"""What the cluster manager reports and is asked for: launches, kills, statuses, reconciliation."""
