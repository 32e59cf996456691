"""Every method through the gateway and directly at the node: equal answers, published prices, the same errors.

`python -m tests.conformance` starts the product, asks both, and writes the table into README.md beside it. A test of
tests/cluster makes the same run, and fails when a row is unequal or when README.md has another table.
"""
