"""The command line: `nngcd demo | fit | predict | evaluate | data | doctor`. The only layer that prints."""

from nngcd.cli.app import main

__all__ = ["main"]
