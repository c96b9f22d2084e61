"""The pages of an instance's files and logs."""
