"""Training one child network, then many."""
