"""What operators look at: the amounts of pools now and over the last day, their queues, preemptions."""
