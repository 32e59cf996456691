"""Bytes and writes of a link are read from the kernel, and counted for the end that listens."""

import os
import socket

from bench.links import Passed, copied_of, copied_since, passed, ports_of, read

_SS = """\
0      0               127.0.0.1:22953          127.0.0.1:34586
\t bbr wscale:10,10 rto:204 bytes_sent:6753 bytes_acked:6753 bytes_received:10360 data_segs_out:41 data_segs_in:40
0      0               127.0.0.1:34586          127.0.0.1:22953
\t bbr bytes_sent:10360 bytes_received:6753 data_segs_out:40 data_segs_in:41
0      0                   [::1]:22953              [::1]:4000
\t bbr bytes_sent:1 data_segs_out:1
"""


def test_each_connection_counts_once_at_its_listening_end() -> None:
    """And one without a figure has none of it: the kernel leaves zeros out."""
    found = read(_SS, {"owners": {22953}, "nobody": {1}})
    assert found == {"owners": Passed(6754, 10360, 42, 40), "nobody": Passed()}
    assert Passed(5, 4, 3, 2).since(Passed(1, 1, 1, 1)) == Passed(4, 3, 2, 1)


_OF_PROCESSES = """\
0 0 127.0.0.1:1 127.0.0.1:2 users:(("haproxy",pid=31,fd=5))
\t bbr bytes_sent:100 bytes_acked:99 bytes_received:10
0 0 127.0.0.1:2 127.0.0.1:1 users:(("python",pid=32,fd=5),("python",pid=33,fd=5))
\t bbr bytes_sent:10 bytes_received:100
0 0 127.0.0.1:3 127.0.0.1:4 users:(("another",pid=331,fd=5))
\t bbr bytes_sent:1000 bytes_received:1000
0 0 127.0.0.1:3 127.0.0.1:5
\t bbr bytes_sent:1000 bytes_received:1000
"""


def test_bytes_are_counted_at_each_end_that_a_process_has() -> None:
    """Between two of them twice, as they are copied twice; a connection that two share once."""
    assert sum(copied_of(_OF_PROCESSES, {31, 32, 33}).values()) == 220
    assert sum(copied_of(_OF_PROCESSES, {33}).values()) == 110
    assert copied_of(_OF_PROCESSES, {1, 3}) == {}
    assert copied_since({"a": 5, "ended": 9}, {"a": 8, "new": 2}) == 5


def test_bytes_of_a_real_connection_are_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in ports_of([os.getpid()])
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
            client.sendall(b"x" * 1000)
            assert accepted.recv(2000, socket.MSG_PEEK)
            assert passed({"it": {port}})["it"].received == 1000
