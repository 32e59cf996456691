"""Instruction data of the launch platform.

Implements: discriminators; encoding and decoding of the arguments of launches and trades. Optional arguments at the
end are plain values that may be missing; like the program, decoding ignores bytes after the last known argument.
Pure. Not here: the accounts of an instruction (accounts.py).
"""

from dataclasses import dataclass
from enum import Enum, unique

from solders.pubkey import Pubkey

from actors.launch_programs.borsh import Fields, decode, encode


@unique
class Kind(Enum):
    """An instruction, by its discriminator."""

    BUY = bytes.fromhex("66063d1201daebea")
    BUY_EXACT_SOL_IN = bytes.fromhex("38fc74089edfcd5f")
    SELL = bytes.fromhex("33e685a4017f83ad")
    BUY_V2 = bytes.fromhex("b817ee6167c5d33d")
    BUY_EXACT_QUOTE_IN_V2 = bytes.fromhex("c2ab1c46684d5b2f")
    SELL_V2 = bytes.fromhex("5df6823ce7e940b2")
    BUY_V3 = bytes.fromhex("07051dc4f5176550")
    BUY_EXACT_QUOTE_IN_V3 = bytes.fromhex("e1f7501ed5b38488")
    SELL_V3 = bytes.fromhex("1c92de7726c469d5")
    CREATE = bytes.fromhex("181ec828051c0777")
    CREATE_V2 = bytes.fromhex("d6904cec5f8b31b4")
    EXTEND_ACCOUNT = bytes.fromhex("ea66c2cb96483ee5")
    INIT_USER_VOLUME_ACCUMULATOR = bytes.fromhex("5e06ca73ff60e8b7")
    MIGRATE = bytes.fromhex("9beae792ec9ea21e")
    MIGRATE_V2 = bytes.fromhex("bbcb121fceedfe29")
    WITHDRAW = bytes.fromhex("b712469c946da122")
    SWEEP_PROTOCOL_FEE = bytes.fromhex("0830be07b644b7e5")
    SWEEP_CREATOR_FEE = bytes.fromhex("20f6bf3408c949ba")
    MIGRATE_BONDING_CURVE_CREATOR = bytes.fromhex("577c34bf3426d6e8")
    MULTI_HOP_CURVE_SWAP = bytes.fromhex("e19a7516d756f667")

    @property
    def discriminator(self) -> bytes:
        return bytes(self.value)

    @property
    def title(self) -> str:
        """The name in the program's log, such as `BuyExactSolIn`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


LEGACY_TRADES = frozenset({Kind.BUY, Kind.BUY_EXACT_SOL_IN, Kind.SELL})
V2_TRADES = frozenset({Kind.BUY_V2, Kind.BUY_EXACT_QUOTE_IN_V2, Kind.SELL_V2})
V3_TRADES = frozenset({Kind.BUY_V3, Kind.BUY_EXACT_QUOTE_IN_V3, Kind.SELL_V3})
TRADES = LEGACY_TRADES | V2_TRADES | V3_TRADES
SELLS = frozenset({Kind.SELL, Kind.SELL_V2, Kind.SELL_V3})
EXACT_IN = frozenset({Kind.BUY_EXACT_SOL_IN, Kind.BUY_EXACT_QUOTE_IN_V2, Kind.BUY_EXACT_QUOTE_IN_V3})
_BY_DISCRIMINATOR = {kind.discriminator: kind for kind in Kind}
_TRADE_FIELDS: Fields = (("amount", "u64"), ("limit", "u64"), ("flag", "bool"))
_TRADE_BYTES_MIN = 24
_KEY_AND_MAYHEM_BYTES = 33
_CREATE_FIELDS: Fields = (
    ("name", "string"),
    ("symbol", "string"),
    ("uri", "string"),
    ("creator", "key"),
    ("is_mayhem", "bool"),
    ("is_cashback", "bool"),
    ("creator_fee_bps", "u64"),
    ("is_holder_reward", "bool"),
)


def kind_of(data: bytes) -> Kind | None:
    return _BY_DISCRIMINATOR.get(data[:8])


@dataclass(frozen=True, slots=True)
class TradeArguments:
    """Arguments of a trade. amount: tokens, or the budget of an exact-in buy. limit: the largest cost or the smallest
    result, in the other unit. flag: track_volume of the legacy buys, partial_fill of buy_v3."""

    amount: int
    limit: int
    flag: bool = False


@dataclass(frozen=True, slots=True)
class CreateArguments:
    name: str
    symbol: str
    uri: str
    creator: Pubkey
    is_mayhem: bool = False  # This and all fields below: create_v2 only.
    is_cashback: bool = False
    creator_fee_bps: int = 0
    is_holder_reward: bool = False


def trade_arguments(data: bytes) -> TradeArguments | None:
    if len(data) < _TRADE_BYTES_MIN:
        return None
    values = decode(_TRADE_FIELDS, data, 8)
    return None if values is None else TradeArguments(**values)


def create_arguments(data: bytes) -> CreateArguments | None:
    """Decode a launch. The first version of `create` had no creator, which is then the zero key. create_v2 must have
    its mayhem byte."""
    is_v2 = data[:8] == Kind.CREATE_V2.discriminator
    values = decode(_CREATE_FIELDS if is_v2 else _CREATE_FIELDS[:4], data, 8)
    if values is None:
        return None
    texts = encode(_CREATE_FIELDS[:3], values)
    if len(data) < 8 + len(texts) + (_KEY_AND_MAYHEM_BYTES if is_v2 else 0):
        return None
    return CreateArguments(**values)


def trade_data(kind: Kind, amount: int, limit: int, flag: bool | None = None) -> bytes:
    """Encode a trade. flag None: leave the byte out. Raises borsh.Overflow for an amount of 2^64 or more."""
    assert kind in TRADES, kind
    fields = _TRADE_FIELDS if flag is not None else _TRADE_FIELDS[:2]
    return kind.discriminator + encode(fields, {"amount": amount, "limit": limit, "flag": flag})


def create_data(kind: Kind, arguments: CreateArguments) -> bytes:
    """Encode a launch. Leaves out the last three arguments of create_v2 if all are unset: a launch with a buy is near
    the size limit of a transaction."""
    assert kind in (Kind.CREATE, Kind.CREATE_V2), kind
    asks_more = arguments.is_cashback or arguments.creator_fee_bps or arguments.is_holder_reward
    fields = _CREATE_FIELDS[: 4 if kind is Kind.CREATE else 8 if asks_more else 5]
    return kind.discriminator + encode(fields, {name: getattr(arguments, name) for name, _ in fields})
