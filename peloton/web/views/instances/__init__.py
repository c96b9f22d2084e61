"""The page of an instance."""
