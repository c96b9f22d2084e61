"""Command line of Peloton. Daemons never import it."""
