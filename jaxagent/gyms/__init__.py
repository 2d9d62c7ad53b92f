"""Gyms, one file each. Each has `gym(...)`, `Task`, `State` and `problem(...)`: nothing to register."""
