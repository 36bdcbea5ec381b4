"""The losses, one small file of plain functions each; views are always an axis of their own."""
