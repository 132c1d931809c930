"""Pages of models, and the two doors for pods."""
