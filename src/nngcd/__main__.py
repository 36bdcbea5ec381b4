"""`python -m nngcd` is the same as `nngcd`."""

from nngcd.cli import main

if __name__ == "__main__":
    main()
