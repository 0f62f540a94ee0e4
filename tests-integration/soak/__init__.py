"""A soak test: sessions with hostile strategies, threads, cancellations, failures and kills.

`python -m soak` runs random rounds for some minutes. The rules that decide are written here and
use no check of the product.
"""
