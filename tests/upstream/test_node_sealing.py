"""Guards that whoever has the database alone can neither read nor exchange a node's URL."""

import pytest

from actors.upstream.node_sealing import NONCE_BYTES, NodeUrls, NodeUrlSeal

SEAL, URLS, NONCE = NodeUrlSeal(b"s" * 32), NodeUrls("http://x/SECRETKEY", "ws://x/SECRETKEY"), b"n" * NONCE_BYTES
SEALED = SEAL.seal(URLS, "tokyo", NONCE)


def test_a_url_is_sealed_and_read_again():
    assert b"SECRETKEY" not in SEALED
    assert SEAL.unseal(SEALED, "tokyo") == URLS


@pytest.mark.parametrize(
    ("seal", "sealed", "node_id"),
    [
        (NodeUrlSeal(b"t" * 32), SEALED, "tokyo"),
        (SEAL, SEALED, "paris"),
        (SEAL, SEALED[:-1] + bytes([SEALED[-1] ^ 1]), "tokyo"),
        (SEAL, b"", "tokyo"),
    ],
    ids=["another secret", "another node", "changed", "empty"],
)
def test_what_was_sealed_otherwise_is_not_believed(seal: NodeUrlSeal, sealed: bytes, node_id: str):
    assert seal.unseal(sealed, node_id) is None
