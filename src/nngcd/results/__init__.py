"""The results of a run: tables, confidence, scores, sentences."""
