"""What leaders keep of the past in blocks of the store: samples over time, and events."""
