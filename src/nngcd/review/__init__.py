"""Correcting a run: an append-only log of a person's edits, and the results with these edits applied."""
