"""One module per contender; each runs in an environment of its own."""
