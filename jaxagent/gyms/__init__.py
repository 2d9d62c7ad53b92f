"""Gyms, one file each: `gym(...)`, `Task`, `State` and `problem(...)`; nothing to register."""
