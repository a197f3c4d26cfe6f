"""The plan for a trace: hits and time at each size of the cache, the policies, and the report that says so."""
