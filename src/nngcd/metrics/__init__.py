"""How well clusters agree with true classes; everything here takes plain arrays."""
