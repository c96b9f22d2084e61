"""The shared kernel of Peloton: model, ports and the thin shell that every daemon stands on."""

__version__ = "0.1.0"
