"""A sweep: a trace through every combination of index, policy, page size and capacity, on many cores."""
