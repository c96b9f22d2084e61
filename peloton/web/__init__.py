"""The web UI: pages about a cluster, rendered by the server and kept current by server-sent events."""
