"""The format of the Yellowstone stream: two .proto files, and the Python code generated from them."""
