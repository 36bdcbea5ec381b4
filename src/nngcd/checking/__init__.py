"""Checks of a user's data before the long work."""
