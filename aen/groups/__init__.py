"""Which entries share a weight? Symmetries, orbits, sharing; NumPy only."""
