"""Which network? Spaces, strategies and the search loop."""
