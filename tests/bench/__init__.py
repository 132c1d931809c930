"""Measurements: arms side by side in one run, medians of interleaved rounds, one JSON line a figure."""
