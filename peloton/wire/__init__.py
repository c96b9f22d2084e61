"""Between the wire and the model: one place for each message, both ways. Rules of merging live here too,
because they are rules over the wire's fields."""
