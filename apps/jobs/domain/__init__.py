"""Rules of training jobs, in plain Python: no Django, no network, no clock."""
