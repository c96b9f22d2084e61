"""What is known of hosts, in columns and values: offers, labels, pools, and which hosts match."""
