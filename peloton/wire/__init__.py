"""Translation between wire messages and the model, in one place for each message.

Rules of merging live here too, because they are rules over fields of the wire.
"""
