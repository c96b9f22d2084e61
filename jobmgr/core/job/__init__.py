"""One job: its state, its requests, and which of its instances are dispatched."""
