"""From an image to the tensors a network sees."""
