"""Benchmarks: many runs side by side."""
