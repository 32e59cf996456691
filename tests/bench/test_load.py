"""What the generators print, read."""

import pytest

from bench.load import LoadFailed, parse

_WRK = """Running 8s test @ http://127.0.0.1:9555/
  1 threads and 64 connections
  Non-2xx or 3xx responses: 3
figures {"requests":1003,"duration_us":8000000,"p50_us":1500.0,"p99_us":9000.5,"max_us":1.0,\
"refused":3,"connect":1,"read":2,"write":0,"timeout":4}
"""


def test_wrk_figures_count_refusals_and_broken_connections_as_errors() -> None:
    """wrk counts a refused call among its requests, and a broken connection not."""
    found = parse(_WRK, "wrk", 64)
    assert (found.answered, found.errors, found.connections, found.tool) == (1000, 10, 64, "wrk")
    assert (found.per_second, found.latency_p50_ms, found.latency_p99_ms) == (125, 1.5, 9.0005)


def test_output_without_figures_is_a_failure_with_the_output() -> None:
    """Never a row of zeros for a generator that did not run."""
    with pytest.raises(LoadFailed, match="unable to connect"):
        parse("unable to connect to 127.0.0.1:1 Connection refused\n", "wrk", 1)
