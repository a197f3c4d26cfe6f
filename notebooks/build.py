"""Build the notebooks from their sources."""
