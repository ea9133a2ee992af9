"""Element-wise operations, alone or several as one kernel."""
