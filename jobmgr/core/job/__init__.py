"""Jobs: the active ones, requests for them, and which of their instances are enqueued."""
