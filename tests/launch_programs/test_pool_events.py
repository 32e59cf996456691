"""Events of trades in pools, against the layouts of the platform's public documents."""

import dataclasses

from solders.pubkey import Pubkey

from actors.launch_programs.events import decode_event, encode_event, log_line, self_cpi_data
from actors.launch_programs.pool_events import PoolBuyEvent, PoolSellEvent

NUMBERS = {
    name: index + 1 for index, name in enumerate(name for name, kind in PoolBuyEvent.FIELDS if kind in ("u64", "i64"))
}
SELL_NUMBERS = {
    name: index + 1 for index, name in enumerate(name for name, kind in PoolSellEvent.FIELDS if kind in ("u64", "i64"))
}
KEYS = {name: Pubkey.new_unique() for name, kind in PoolSellEvent.FIELDS if kind == "key"}
BUY = PoolBuyEvent(**NUMBERS, **KEYS, track_volume=True, ix_name="buy", virtual_quote_reserves=-5)  # type: ignore[arg-type]
SELL = PoolSellEvent(**SELL_NUMBERS, **KEYS, virtual_quote_reserves=-5)  # type: ignore[arg-type]


def test_events_survive_their_bytes_in_both_forms() -> None:
    """In an inner instruction and in a log line; signed fields keep their sign."""
    for event in (BUY, SELL):
        assert decode_event(encode_event(event)) == event
        assert decode_event(self_cpi_data(event)) == event
        assert log_line(event).startswith("Program data: ")


def test_the_numbers_before_the_keys_are_where_readers_of_the_chain_expect_them() -> None:
    """After discriminator and time: 13 numbers; the first is the base, the last what the user paid or got; then the
    pool."""
    for event, base, quote in (
        (BUY, BUY.base_amount_out, BUY.user_quote_amount_in),
        (SELL, SELL.base_amount_in, SELL.user_quote_amount_out),
    ):
        data = encode_event(event)
        assert int.from_bytes(data[16:24], "little") == base
        assert int.from_bytes(data[16 + 12 * 8 : 16 + 13 * 8], "little") == quote
        assert data[16 + 13 * 8 : 16 + 13 * 8 + 32] == bytes(event.pool)


def test_an_older_event_is_a_prefix() -> None:
    """The first version ended with the fee recipient's token account; what is missing is zero. Less is no event."""
    first = encode_event(SELL)[: 8 + 14 * 8 + 6 * 32]
    found = decode_event(first)
    assert isinstance(found, PoolSellEvent)
    assert (found.pool, found.user, found.coin_creator_fee) == (SELL.pool, SELL.user, 0)
    assert decode_event(first[:-1]) is None
    assert dataclasses.replace(SELL) == SELL
