"""Formats of our own, where those of Django will not do."""
