"""Background steps: wanted against seen, one step at a time."""
