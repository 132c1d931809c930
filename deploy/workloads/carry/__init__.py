"""Brings the newest good checkpoint of a volume to the portal, file by file. Needs Python alone."""
