"""nngcd: sort partly labelled images into known and newly discovered categories."""

__version__ = "0.1.0"
