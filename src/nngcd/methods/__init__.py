"""The methods, one readable file each; `methods/contract.py` defines their interface."""
