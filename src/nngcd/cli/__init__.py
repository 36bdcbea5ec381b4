"""The command line: `nngcd demo | fit | predict | evaluate | data | doctor`. The only layer that prints."""

from nngcd.cli.app import main, program

__all__ = ["main", "program"]
