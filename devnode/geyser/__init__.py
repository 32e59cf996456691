"""The Yellowstone gRPC stream of devnode."""
