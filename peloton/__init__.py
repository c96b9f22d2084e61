"""The shared kernel of Peloton: model, ports and the thin shell that every daemon stands on."""

import os

__version__ = "0.2.0"

if "PELOTON_COMPILED" in os.environ:  # else nothing is to be chosen, and programs start sooner
    from peloton.compiled import use_chosen

    use_chosen()
