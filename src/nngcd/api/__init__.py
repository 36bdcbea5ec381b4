"""The Python front door: `nngcd.run`, `nngcd.Run` and `nngcd.CategoryDiscovery`."""
