"""Experiments: constants, parts, `run` to arrays, `tell` to text. Run one with `python -m`."""
