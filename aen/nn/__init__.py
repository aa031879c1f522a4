"""Equivariant layers and networks, in Flax."""
