"""The command line: parses, prints and calls; the only room that prints.

Commands import what they need inside their function: torch and pandas take seconds, and `nngcd --help` must not wait.
"""

from nngcd.cli.app import main, program

__all__ = ["main", "program"]
