"""Rules of served models: plain Python, no Django, no network, no clock."""
