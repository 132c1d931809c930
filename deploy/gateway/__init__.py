"""Envoy before deployed models: what of its configuration does not change while it runs."""
