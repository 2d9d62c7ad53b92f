"""Measurements. Only ratios taken within one run mean anything on a shared machine."""
