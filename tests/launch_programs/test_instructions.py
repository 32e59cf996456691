from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.launch_programs.events import SELF_CPI_PREFIX
from actors.launch_programs.instructions import (
    TRADES,
    CreateArguments,
    Kind,
    TradeArguments,
    create_arguments,
    create_data,
    kind_of,
    trade_arguments,
    trade_data,
)

from .samples import calls, key, sample, transaction_names

u64 = st.integers(0, 2**64 - 1)
keys = st.binary(min_size=32, max_size=32).map(Pubkey.from_bytes)


def test_instructions_that_landed_are_known() -> None:
    """Every call to the program in every sample is an event or an instruction with arguments."""
    seen = set()
    for name in transaction_names():
        for _, data in calls(name):
            if data[:8] == SELF_CPI_PREFIX:
                continue
            kind = kind_of(data)
            assert kind is not None, (name, data.hex())
            assert (trade_arguments(data) if kind in TRADES else create_arguments(data)) is not None
            seen.add(kind)
    assert seen == {Kind.BUY, Kind.SELL, Kind.CREATE, Kind.CREATE_V2}


def test_a_launch_as_it_landed() -> None:
    (_, created), (_, bought), _, _ = calls("pump_create_v2_buy_blocksubscribe")
    arguments = create_arguments(created)
    assert arguments is not None and (arguments.name, arguments.symbol) == ("NYXORA", "NYXORA")
    assert arguments.creator == key("5zsxd4pGNCQpwyKiBWZ95nCTPsEPoS62xEGnjpW6FRy7") and not arguments.is_mayhem
    assert create_data(Kind.CREATE_V2, arguments) == created
    assert trade_arguments(bought) == TradeArguments(3_520_371_073_923, 108_000_000)
    assert trade_data(Kind.BUY, 3_520_371_073_923, 108_000_000) == bought


def test_older_instructions_are_decoded_too() -> None:
    for name, kind in (("pump_ix_buy", Kind.BUY), ("pump_ix_create", Kind.CREATE), ("pump_ix_withdraw", Kind.WITHDRAW)):
        assert kind_of(bytes.fromhex(sample(name)["payload"]["data"])) is kind
    created = create_arguments(bytes.fromhex(sample("pump_ix_create")["payload"]["data"]))
    assert created is not None and created.symbol == "SEB"


@given(kind=st.sampled_from(sorted(TRADES, key=lambda kind: kind.name)), amount=u64, limit=u64, flag=st.booleans())
def test_trades_decode_to_what_was_encoded(kind: Kind, amount: int, limit: int, flag: bool) -> None:
    data = trade_data(kind, amount, limit, flag)
    assert kind_of(data) is kind and trade_arguments(data) == TradeArguments(amount, limit, flag)
    assert trade_arguments(data[:24]) == TradeArguments(amount, limit)
    assert trade_arguments(data[:23]) is None


@given(
    texts=st.tuples(st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)),
    creator=keys,
    flags=st.tuples(st.booleans(), st.booleans(), u64, st.booleans()),
)
def test_launches_decode_to_what_was_encoded(
    texts: tuple[str, str, str], creator: Pubkey, flags: tuple[bool, bool, int, bool]
) -> None:
    is_mayhem, is_cashback, creator_fee_bps, is_holder_reward = flags
    arguments = CreateArguments(*texts, creator, is_mayhem, is_cashback, creator_fee_bps, is_holder_reward)
    assert create_arguments(create_data(Kind.CREATE_V2, arguments)) == arguments
    assert create_arguments(create_data(Kind.CREATE, arguments)) == CreateArguments(*texts, creator)


@given(data=st.binary(max_size=120))
def test_hostile_data_is_none_or_read(data: bytes) -> None:
    for kind in (Kind.CREATE, Kind.CREATE_V2):
        create_arguments(kind.discriminator + data)
    assert create_arguments(Kind.CREATE_V2.discriminator + bytes(12) + bytes(31)) is None
    assert create_arguments(Kind.CREATE_V2.discriminator + bytes(12) + bytes(32)) is None
    assert kind_of(b"") is None


def test_the_log_names_an_instruction_by_its_title() -> None:
    assert (Kind.CREATE_V2.title, Kind.BUY_EXACT_SOL_IN.title) == ("CreateV2", "BuyExactSolIn")
