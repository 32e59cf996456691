"""The block engine of devnode: bundles that land whole or not at all, and tips."""
