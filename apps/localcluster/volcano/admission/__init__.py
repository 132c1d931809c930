"""Admission decisions: what a new object is given by default, and what is refused with which words.

A mutation is a JSON patch (RFC 6902). A refusal is its message; the empty text accepts.
"""
