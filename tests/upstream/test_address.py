import pytest

from actors.config import UpstreamConfig
from actors.upstream.address import node_address
from actors.upstream.client import NodeClient


def test_the_head_of_a_request_is_made_of_the_url():
    """Path and query as they were written; user and password as credentials, and nowhere else."""
    address = node_address("https://me:p%40ss@[::1]:8899/v1/a%2Fkey?api-key=x%3D")
    assert address.url == "https://[::1]:8899/v1/a%2Fkey?api-key=x%3D"
    head = address.request_head()
    assert head.startswith(b"POST /v1/a%2Fkey?api-key=x%3D HTTP/1.1\r\nHost: [::1]:8899\r\n")
    assert b"\r\nAuthorization: Basic bWU6cEBzcw==\r\n" in head
    assert head.endswith(b"\r\nContent-Length: ")
    assert b"Authorization" not in node_address("http://x").request_head()


@pytest.mark.parametrize("url", ["ftp://x/", "x:8899", "http://", "", "http://x/a b", "http://x/\u00e9"])
def test_a_url_that_names_no_http_server_is_refused_at_start(url):
    """A mistake in the configuration is told when it is read, not by every call."""
    with pytest.raises(ValueError, match="URL"):
        NodeClient(UpstreamConfig(), url)
