"""The edge of the v1alpha API: its specs and the v0 configs that the model is decoded from, either way."""
