"""What every cluster that the portal meets has to answer; the right answers were recorded from a real one."""
