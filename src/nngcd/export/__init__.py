"""Taking the results of a run elsewhere: one file per format, found by its name; originals are never touched."""
