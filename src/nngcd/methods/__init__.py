"""The methods, one readable file each; `methods/contract.py` says what a method is."""
