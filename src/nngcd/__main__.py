"""`python -m nngcd` is the same as `nngcd`."""

from nngcd.cli import program

if __name__ == "__main__":
    program()
