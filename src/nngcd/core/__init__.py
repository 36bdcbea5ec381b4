"""What every layer stands on: errors, configuration, seeds, devices, schedules, files and component lookup."""
