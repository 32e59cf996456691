import msgspec

from actors.accounts.api import HOLD, LINK_KINDS, SETTLE, VOID, OwnerReply, owner_name
from tests.accounts.making import ALICE, hold, settle, wallet_proof


def test_kinds_keep_their_numbers() -> None:
    """Replicas and owners of different versions meet while an update rolls out."""
    numbers = [kind.number for kind in LINK_KINDS]
    assert len(set(numbers)) == len(numbers)
    assert (HOLD.number, SETTLE.number, VOID.number) == (1, 2, 3)


def test_requests_cross_the_link_unharmed() -> None:
    """Bytes, nested items and every sort of proof."""
    requests = [(HOLD, hold(1, 5, 0)), (HOLD, hold(2, proof=wallet_proof(ALICE, "n"))), (SETTLE, settle(1, 5))]
    for kind, request in requests:
        frame = msgspec.msgpack.encode((7, [(1, request)]))
        assert kind.frame_decoder().decode(frame) == (7, [(1, request)])


def test_a_reply_is_a_refusal_or_a_value() -> None:
    """Ray passes it on as it is; the doors tell one from the other by `refusal` alone."""
    assert OwnerReply(refusal="AUTH_FAILED").value is None
    assert OwnerReply(True).refusal is None
    assert (owner_name(3), owner_name("")) == ("account-shard-3", "account-shard-")
