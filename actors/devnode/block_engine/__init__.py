"""The embedded chain's block engine: bundles that land whole or not at all, and tips."""
