"""One thin adapter per outside system; only it imports the system's SDK."""
