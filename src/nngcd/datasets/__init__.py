"""The data sets that a user can name (one file each), and shared code of benchmarks."""
