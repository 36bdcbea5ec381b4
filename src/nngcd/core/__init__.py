"""The base of every layer: errors, configuration, seeds, devices, schedules, files and component lookup."""
