"""Rules of this repository that import-linter has no contract type for."""
