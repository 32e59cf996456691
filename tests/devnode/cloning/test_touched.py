import base64

import base58
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from devnode.cloning.touched import touched_by_calls, touched_by_fund
from tests.devnode.local_node import LocalNode

A, B = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2))


def call(method: str, *params: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (call("getAccountInfo", str(A), {"encoding": "base64"}), {A}),
        (call("getBalance", str(A)), {A}),
        (call("getMultipleAccounts", [str(A), str(B)]), {A, B}),
        (call("getTokenAccountsByOwner", str(A), {"mint": str(B)}), {A, B}),
        (call("getSlot"), set()),
        (call("getSignaturesForAddress", str(A)), set()),
        (call("isBlockhashValid", str(A)), set()),
        (call("getAccountInfo", 5, None, "short", "0" * 43), set()),
        (b"[" + call("getBalance", str(A)) + b"," + call("getBalance", str(B)) + b", 5]", {A, B}),
        (b"{", set()),
        (b"[[[]]]", set()),
        (b'{"method": ["getBalance"]}', set()),
    ],
)
def test_addresses_of_calls_that_read_accounts(body: bytes, found: set[Pubkey]) -> None:
    assert touched_by_calls(body).pubkeys == found


def test_transactions_in_both_encodings(local: LocalNode) -> None:
    payer = Keypair()
    raw = bytes(local.transfer(payer, A, 5))
    texts = [base64.b64encode(raw).decode(), base58.b58encode(raw).decode()]
    for body in (
        call("sendTransaction", texts[0], {"encoding": "base64"}),
        call("sendTransaction", texts[1]),
        call("simulateTransaction", texts[0], {"encoding": "base64", "accounts": {"addresses": [str(B)]}}),
        call("sendBundle", texts),
        call("simulateBundle", {"encodedTransactions": texts}),
    ):
        found = touched_by_calls(body)
        assert {one.raw for one in found.transactions} == {raw}
        assert found.pubkeys == ({B} if b"addresses" in body else set())


def test_a_wallet_to_fund() -> None:
    assert touched_by_fund(orjson.dumps({"pubkey": str(A), "lamports": 5})).pubkeys == {A}
    for body in (b"{", b"[]", b'{"pubkey": 5}', b"{}"):
        assert not touched_by_fund(body)


values = st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=60), st.lists)


@given(params=values)
def test_any_parameters_are_read(params: object) -> None:
    touched_by_calls(call("sendBundle", params))
