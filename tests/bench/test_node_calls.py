"""The measurement of one read's processor time, on a node that needs none."""

from actors.upstream import replies
from bench.node_calls import micros_per_call, own, same

ANSWER = replies.judge(b'{"jsonrpc":"2.0","result":1,"id":1}')


async def test_calls_are_counted_and_their_time_is_shared_out() -> None:
    """Sixteen callers, each as often as the others, and a warm-up of the same length that is not counted."""
    asked: list[bytes] = []

    async def ask(method: str, params: bytes, timeout_ms: int) -> replies.NodeAnswer:
        asked.append(params)
        return ANSWER

    assert 0 < await micros_per_call(ask, 64, own) < 1_000_000
    assert len(asked) == 2 * 64
    assert len(set(asked)) == 16
    assert same(3) == same(4)
