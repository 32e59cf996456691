"""The Yellowstone gRPC stream of the embedded chain."""
