"""Training: what turns a method's mathematics into a fitted model, the same way for every method."""
