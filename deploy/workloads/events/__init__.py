"""Reads the scalars of TensorBoard event files in a job's volume and tells the portal of them. Needs Python alone."""
