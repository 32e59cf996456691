"""Token accounts read from a node's answer, in slices that take turns."""

import asyncio
import base64

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.lookups.token_accounts import (
    ROWS_PER_SLICE,
    TOKEN_ACCOUNT_SLICE,
    Slices,
    TokenAccount,
    read_accounts,
    read_token_accounts,
    rows_of,
)
from actors.upstream import replies

from .scene import TOKEN_PROGRAM_ID, Scene


async def read(body: bytes) -> tuple[int, list[TokenAccount]]:
    slot, rows = rows_of(body)
    return slot, await read_token_accounts(rows, Slices())


async def test_an_account_is_read_as_the_token_program_wrote_it(scene: Scene):
    """From the bytes of a slice, as a node gives them."""
    mint, owner = scene.mint(3), scene.bert.pubkey()
    scene.holds(scene.bert, mint, 1_500)
    config = {"encoding": "base64", "dataSlice": TOKEN_ACCOUNT_SLICE}
    found = scene.local.call("getTokenAccountsByOwner", str(owner), {"mint": str(mint)}, config)
    slot, (account,) = await read(replies.made(orjson.dumps(found)).body)
    address = str(scene.account_of(scene.bert, mint))
    assert account == TokenAccount(address, str(TOKEN_PROGRAM_ID), bytes(mint), bytes(owner), 1_500, None, 0, False)
    assert account.key == bytes(Pubkey.from_string(address)) and slot == found["context"]["slot"]


def a_body(*datas: bytes) -> bytes:
    rows = [
        {"pubkey": "a", "account": {"data": [base64.b64encode(data).decode(), "base64"], "owner": "p", "lamports": 1}}
        for data in datas
    ]
    return replies.made(orjson.dumps({"context": {"slot": 4}, "value": rows})).body


async def test_a_delegate_and_a_freeze_are_read():
    """What may be moved by another, and how much of it."""
    key = bytes([7]) * 32
    head = key + bytes([8]) * 32 + (9).to_bytes(8, "little")
    given_away = head + b"\1\0\0\0" + key + b"\2" + bytes(12) + (5).to_bytes(8, "little")
    _, (account,) = await read(a_body(given_away))
    assert (account.delegate, account.delegated_amount, account.frozen) == (str(Pubkey(key)), 5, True)
    kept = head + bytes(36) + b"\1" + bytes(12) + (5).to_bytes(8, "little")
    _, (account,) = await read(a_body(kept))
    assert (account.delegate, account.delegated_amount, account.frozen) == (None, 0, False)


@pytest.mark.parametrize("body", [a_body(bytes(128)), b"{}", b"[]", b'{"result":{"context":{"slot":1},"value":[5]}}'])
async def test_what_is_no_token_account_is_malformed(body: bytes):
    """It is never shown as an empty one."""
    with pytest.raises((msgspec.DecodeError, ValueError)):
        await read(body)


def test_accounts_are_read_in_their_order():
    """With their sizes, where the node tells them; None where there is no account."""
    told = {"data": [base64.b64encode(b"abc").decode(), "base64"], "owner": "p", "space": 900}
    untold = {"data": [base64.b64encode(b"abcd").decode(), "base64"], "owner": "q"}
    _, rows = rows_of(replies.made(orjson.dumps({"context": {"slot": 1}, "value": [told, None, untold]})).body)
    assert read_accounts(rows) == [("p", b"abc", 900), None, ("q", b"abcd", 4)]


async def test_slices_of_all_callers_take_turns():
    """Two never begin in one round of the loop, however many callers there are."""
    slices, rounds = Slices(), []
    now = 0

    async def caller() -> None:
        for _ in range(3):
            await slices.turn()
            rounds.append(now)

    callers = asyncio.gather(*(caller() for _ in range(5)))
    while not callers.done():
        now += 1
        await asyncio.sleep(0)
    assert len(rounds) == 15 == len(set(rounds))


async def test_a_long_answer_is_read_in_slices():
    """One turn for each."""
    turns = 0

    class Counted(Slices):
        async def turn(self) -> None:
            nonlocal turns
            turns += 1

    _, rows = rows_of(a_body(*[bytes(129)] * (2 * ROWS_PER_SLICE + 1)))
    assert len(await read_token_accounts(rows, Counted())) == 2 * ROWS_PER_SLICE + 1
    assert turns == 3


@given(data=st.binary(max_size=200))
async def test_no_bytes_raise_anything_else(data: bytes):
    """Callers treat both as garbage."""
    try:
        await read(a_body(data))
    except (msgspec.DecodeError, ValueError):
        pass
