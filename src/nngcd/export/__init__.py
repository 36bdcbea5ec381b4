"""Exports of a run's results: one module per format, found by its name. Originals are never touched."""
