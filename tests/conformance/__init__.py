"""Every method through the gateway and directly at the node: equal answers, published prices, the same errors.

`python -m tests.conformance` starts the product, asks both, and writes the table into README.md. The same run is a test
of tests/cluster, which fails when a row is unequal or the table in README.md is not the one that the run gives.
"""
