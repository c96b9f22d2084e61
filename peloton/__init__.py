"""The shared kernel of Peloton: model, ports and the thin shell that every daemon stands on."""

from peloton.compiled import use_chosen

__version__ = "0.1.0"

use_chosen()
