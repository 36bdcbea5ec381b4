"""Metrics of clusters against true classes; all functions take plain arrays."""
