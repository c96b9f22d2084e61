"""Tools of this repository: a contract type for import-linter, and the diagrams of the documentation."""
