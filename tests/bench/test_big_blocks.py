"""The chain of the block measurement: a block is as large as was asked for."""

import httpx

from bench.big_blocks import filled


def test_a_block_is_at_least_as_large_as_was_asked_for() -> None:
    """Real transfers, all in one slot, and final when the measurement begins."""
    with filled(30_000, 60_000) as chain:
        assert len(set(chain.slots.values())) == 2
        for size, slot in chain.slots.items():
            asked = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "getBlock",
                "params": [slot, {"maxSupportedTransactionVersion": 0}],
            }
            body = httpx.post(chain.url, json=asked, timeout=30).content
            assert size <= len(body) < 2 * size
