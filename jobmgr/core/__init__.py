"""What decides about jobs and tasks: pure, events in and instructions out."""
