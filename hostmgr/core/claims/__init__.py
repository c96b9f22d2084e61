"""Who has a host: claims, holds for the next runs, and reserved hosts."""
