"""The messages that cross the hot link."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import (
    REPLICA_ID_BYTES,
    Evidence,
    Figures,
    HoldItem,
    HoldReply,
    HoldRequest,
    KeyProof,
    Outcome,
    Proof,
    ProvenProof,
    SessionProof,
    SettleReply,
    SettleRequest,
    WalletProof,
    call_evidence,
    is_lasting,
    lasting_prefix,
    new_replica_id,
    operation_at,
    read_evidence,
    split_key,
    with_key,
)

proofs = st.one_of(
    st.builds(KeyProof, st.binary(), st.binary()),
    st.builds(SessionProof, st.binary(), st.binary()),
    st.builds(WalletProof, st.binary(), st.text(), st.integers(-(2**60), 2**60)),
    st.builds(ProvenProof, st.binary()),
)
numbers = st.integers(0, 2**63 - 1)
figures = st.builds(Figures, numbers, numbers, numbers, numbers)
verdicts = st.lists(st.none() | st.text(), max_size=5).map(tuple)
messages = st.one_of(
    st.builds(
        HoldRequest, st.binary(), proofs, st.lists(st.builds(HoldItem, st.text(), numbers), max_size=5).map(tuple)
    ),
    st.builds(HoldReply, st.binary(), numbers, st.none() | st.text(), verdicts, st.none() | figures),
    st.builds(SettleRequest, *(st.binary(), st.binary(), numbers, st.text(), numbers, numbers, numbers, numbers)),
    st.builds(SettleReply, st.booleans(), numbers),
)


@given(messages)
def test_messages_arrive_as_they_were_sent(message: msgspec.Struct) -> None:
    """Both ends of the link see the same values, of the same kinds."""
    packed = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(packed, type=type(message)) == message


@given(proofs)
def test_kinds_of_proof_are_told_apart(proof: Proof) -> None:
    """A key must not arrive as a session: both have the same fields."""
    arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(proof), type=Proof)  # type: ignore[type-var]
    assert type(arrived) is type(proof)


def test_a_message_of_another_shape_is_refused() -> None:
    """A peer of another version fails loudly instead of charging the wrong field."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(["x", b"key"]), type=SettleRequest)


def test_outcomes_keep_their_numbers() -> None:
    """The ledger keeps them."""
    assert {outcome.name: int(outcome) for outcome in Outcome} == {
        "ANSWERED": 0,
        "UPSTREAM_ERROR": 1,
        "CLIENT_GONE": 2,
        "RELEASED": 3,
    }


def test_items_of_a_request_have_operations_of_their_own() -> None:
    """Two items never share one, and the replica's half stays."""
    operation = b"edgeedge" + (41).to_bytes(8, "big")
    made = [operation_at(operation, index) for index in range(100)]
    assert made[0] == operation
    assert len(set(made)) == 100
    assert {part[:8] for part in made} == {b"edgeedge"}
    assert made[99] == b"edgeedge" + (140).to_bytes(8, "big")


@given(random=st.binary(min_size=8, max_size=8))
def test_a_replica_and_what_outlives_it_have_different_names(random: bytes) -> None:
    """Rule (money rule 2): charges of a replica that is gone are refunded, and lasting ones are nobody's who may go."""
    replica = new_replica_id(random)
    assert len(replica) == len(lasting_prefix(replica)) == REPLICA_ID_BYTES
    assert not is_lasting(replica) and is_lasting(lasting_prefix(replica))
    assert replica[1:] == random[1:]


@given(text=st.text(max_size=60), number=st.integers(1, 999_999_999))
def test_the_number_of_a_key_is_found_again_whatever_stands_before_it(text: str, number: int) -> None:
    assert split_key(with_key(text, number)) == (text, number)
    assert with_key(text, 0) == text


def test_a_description_of_before_names_no_key() -> None:
    for text in ("", "-0017 YWJj", "tx:5h", "abc|5 YWJj", "|", "a|b"):
        assert split_key(text) == (text, 0)


def test_a_charge_of_a_named_key_tells_it_beside_its_evidence() -> None:
    operation = bytes(range(16))
    assert read_evidence(operation, "-17 YWJj|3") == Evidence("0001020304-17", "YWJj", "", 3)
    assert read_evidence(operation, "tx:5h|12") == Evidence(transaction="5h", key=12)
    assert read_evidence(operation, "|7") == Evidence(key=7)
    told = call_evidence(operation, "0001020304-17", "YWJj", "hit")
    assert read_evidence(operation, told) == Evidence("0001020304-17", "YWJj", cache="hit")
