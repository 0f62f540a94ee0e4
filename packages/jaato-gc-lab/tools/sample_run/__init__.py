"""The story of the sample run, and the project in which it happens."""
