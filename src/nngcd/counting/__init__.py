"""Estimates of the number of categories."""
