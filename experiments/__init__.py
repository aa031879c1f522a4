"""Launchers: flags, then a config, then one call of the library."""
