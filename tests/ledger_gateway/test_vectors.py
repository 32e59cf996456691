"""What clients in other languages are tested by is what this client makes and the gateway takes."""

from actors.accounts.child_keys import read_child
from ledger_gateway.webhooks import verify
from tests.ledger_gateway import vectors


def test_the_vectors_are_what_this_client_makes() -> None:
    """`python -m tests.ledger_gateway.vectors` writes them anew."""
    assert vectors.PLACE.read_text(encoding="utf-8") == vectors.text()


def test_the_gateway_takes_every_child_of_the_vectors() -> None:
    """Byte for byte is of use only where the bytes are right: each block's signature holds, and its limits are read."""
    for child in vectors.vectors()["children"]:
        read = read_child(child["key"])
        assert read is not None
        found = [block.proven_limits() for block in read.blocks]
        assert all(found) and read.has_seed(), child["name"]
        limits = found[-1]
        assert limits is not None and limits.name == child["name"]
        assert {name: list(v) if isinstance(v := getattr(limits, name), tuple) else v for name in child["limits"]} == (
            child["limits"]
        )


def test_the_python_client_takes_every_delivery_of_the_vectors() -> None:
    webhook = vectors.vectors()["webhook"]
    for headers in webhook["headers"]:
        assert verify(headers, webhook["body"].encode(), webhook["secret"], webhook["now"]).event_id == "evt_1_2"
