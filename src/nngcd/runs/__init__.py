"""A run: prepared, written, and used once it is finished."""
