"""The Yellowstone stream's format: two .proto files, and the Python made of them."""
