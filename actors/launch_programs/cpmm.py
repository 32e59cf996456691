"""Raydium's constant-product program (CPMM): addresses, account layouts, instructions, amounts, its swap event.

Implements: `initialize`, `swap_base_input` and `swap_base_output`. The two mints of a pool are sorted by their bytes.
Pure. Not here: its other instructions.
"""

from dataclasses import asdict, dataclass
from enum import Enum, unique

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys, Slot
from actors.launch_programs.borsh import U8, U16, U64, BorshRecord, EventRecord, Flag, Key, decode, encode

CPMM = Pubkey.from_string("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C")
POOL_FEE_RECEIVER = Pubkey.from_string("DNXgeM9EiiaAbaWvwjHj9fQQLAX5ZsfHyvmYUNRAdNC8")
RATE_DENOMINATOR = 1_000_000
LOCKED_LIQUIDITY = 100
CPMM_POOL_BYTES = 637
_POOL_DISCRIMINATOR = bytes.fromhex("f7ede3f5d7c3de46")
_CONFIG_DISCRIMINATOR = bytes.fromhex("daf42168cbcb2b6f")
_CONFIG_BYTES = 236


@unique
class CpmmKind(Enum):
    """An instruction of the program, by its discriminator."""

    INITIALIZE = bytes.fromhex("afaf6d1f0d989bed")
    SWAP_BASE_INPUT = bytes.fromhex("8fbe5adac41e33de")
    SWAP_BASE_OUTPUT = bytes.fromhex("37d96256a34ab4ad")

    @property
    def title(self) -> str:
        """The name in the program's log."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_SWAP = Slot.list_of(
    "payer:s authority amm_config pool:w input_account:w output_account:w input_vault:w output_vault:w input_program "
    "output_program input_mint output_mint observation:w"
)
CPMM_SLOTS: dict[CpmmKind, tuple[Slot, ...]] = {
    CpmmKind.INITIALIZE: Slot.list_of(
        "creator:ws amm_config authority pool:w mint_0 mint_1 lp_mint:w creator_0:w creator_1:w creator_lp:w vault_0:w "
        "vault_1:w pool_fee_receiver:w observation:w token_program program_0 program_1 associated_program "
        "system_program rent"
    ),
    CpmmKind.SWAP_BASE_INPUT: _SWAP,
    CpmmKind.SWAP_BASE_OUTPUT: _SWAP,
}


@dataclass(frozen=True, slots=True)
class CpmmPool(BorshRecord):
    amm_config: Key
    pool_creator: Key
    vault_0: Key
    vault_1: Key
    lp_mint: Key
    mint_0: Key
    mint_1: Key
    program_0: Key
    program_1: Key
    observation: Key
    auth_bump: U8
    status: U8
    lp_decimals: U8
    decimals_0: U8
    decimals_1: U8
    lp_supply: U64
    protocol_fees_0: U64 = 0
    protocol_fees_1: U64 = 0
    fund_fees_0: U64 = 0
    fund_fees_1: U64 = 0
    open_time: U64 = 0
    recent_epoch: U64 = 0


@dataclass(frozen=True, slots=True)
class CpmmConfig(BorshRecord):
    bump: U8
    disable_create_pool: Flag
    index: U16
    trade_fee_rate: U64  # Of a million.
    protocol_fee_rate: U64 = 0  # Of the trade fee.
    fund_fee_rate: U64 = 0
    create_pool_fee: U64 = 0
    protocol_owner: Key = addresses.ZERO_KEY
    fund_owner: Key = addresses.ZERO_KEY


@dataclass(frozen=True, slots=True)
class CpmmSwapEvent(EventRecord):
    """A swap, as a log line; older events end with base_input."""

    DISCRIMINATOR = bytes.fromhex("40c6cde8260871e2")
    pool: Key
    input_vault_before: U64
    output_vault_before: U64
    input_amount: U64
    output_amount: U64
    input_transfer_fee: U64
    output_transfer_fee: U64
    base_input: Flag
    input_mint: Key = addresses.ZERO_KEY
    output_mint: Key = addresses.ZERO_KEY
    trade_fee: U64 = 0


def decode_cpmm_pool(data: bytes) -> CpmmPool | None:
    if len(data) < CPMM_POOL_BYTES or data[:8] != _POOL_DISCRIMINATOR:
        return None
    values = decode(CpmmPool.FIELDS, data, 8)
    return None if values is None else CpmmPool(**values)


def encode_cpmm_pool(pool: CpmmPool) -> bytes:
    return (_POOL_DISCRIMINATOR + encode(CpmmPool.FIELDS, asdict(pool))).ljust(CPMM_POOL_BYTES, b"\x00")


def decode_cpmm_config(data: bytes) -> CpmmConfig | None:
    if len(data) < _CONFIG_BYTES or data[:8] != _CONFIG_DISCRIMINATOR:
        return None
    values = decode(CpmmConfig.FIELDS, data, 8)
    return None if values is None else CpmmConfig(**values)


def encode_cpmm_config(config: CpmmConfig) -> bytes:
    return (_CONFIG_DISCRIMINATOR + encode(CpmmConfig.FIELDS, asdict(config))).ljust(_CONFIG_BYTES, b"\x00")


# Addresses.


def cpmm_address(*seeds: bytes) -> tuple[Pubkey, int]:
    """Derive an address of the program, and its bump."""
    return Pubkey.find_program_address(list(seeds), CPMM)


AMM_CONFIG, AMM_CONFIG_BUMP = cpmm_address(b"amm_config", bytes(2))
AUTHORITY, AUTHORITY_BUMP = cpmm_address(b"vault_and_lp_mint_auth_seed")


def cpmm_pool_keys(mint: Pubkey, program: Pubkey, other: Pubkey, other_program: Pubkey) -> Keys:
    """The accounts of the pool of two mints, in either order; each with its token program."""
    (mint_0, program_0), (mint_1, program_1) = sorted(
        ((mint, program), (other, other_program)), key=lambda pair: bytes(pair[0])
    )
    pool = cpmm_address(b"pool", bytes(AMM_CONFIG), bytes(mint_0), bytes(mint_1))[0]
    return {
        "amm_config": AMM_CONFIG,
        "authority": AUTHORITY,
        "pool": pool,
        "mint_0": mint_0,
        "mint_1": mint_1,
        "program_0": program_0,
        "program_1": program_1,
        "lp_mint": cpmm_address(b"pool_lp_mint", bytes(pool))[0],
        "vault_0": cpmm_address(b"pool_vault", bytes(pool), bytes(mint_0))[0],
        "vault_1": cpmm_address(b"pool_vault", bytes(pool), bytes(mint_1))[0],
        "observation": cpmm_address(b"observation", bytes(pool))[0],
        "pool_fee_receiver": POOL_FEE_RECEIVER,
        "token_program": addresses.TOKEN_PROGRAM,
        "associated_program": addresses.ASSOCIATED_TOKEN_PROGRAM,
        "system_program": addresses.SYSTEM_PROGRAM,
        "rent": addresses.RENT_SYSVAR,
    }


def cpmm_initialize(keys: Keys, creator: Pubkey, amount_0: int, amount_1: int, open_time: int = 0) -> Instruction:
    """Build the creation of a pool. keys: from `cpmm_pool_keys`."""
    keys = keys | {
        "creator": creator,
        "creator_0": pdas.associated_token(creator, keys["program_0"], keys["mint_0"]),
        "creator_1": pdas.associated_token(creator, keys["program_1"], keys["mint_1"]),
        "creator_lp": pdas.associated_token(creator, addresses.TOKEN_PROGRAM, keys["lp_mint"]),
    }
    data = bytes(CpmmKind.INITIALIZE.value) + b"".join(
        number.to_bytes(8, "little") for number in (amount_0, amount_1, open_time)
    )
    return Instruction(CPMM, data, [slot.meta(keys) for slot in CPMM_SLOTS[CpmmKind.INITIALIZE]])


def cpmm_swap(keys: Keys, kind: CpmmKind, payer: Pubkey, input_mint: Pubkey, first: int, second: int) -> Instruction:
    """Build a swap. Exact input: (amount in, least amount out); exact output: (most amount in, amount out)."""
    sides = ("0", "1") if input_mint == keys["mint_0"] else ("1", "0")
    for name, side in zip(("input", "output"), sides, strict=True):
        mint, program = keys[f"mint_{side}"], keys[f"program_{side}"]
        keys = keys | {
            f"{name}_mint": mint,
            f"{name}_program": program,
            f"{name}_vault": keys[f"vault_{side}"],
            f"{name}_account": pdas.associated_token(payer, program, mint),
        }
    data = bytes(kind.value) + first.to_bytes(8, "little") + second.to_bytes(8, "little")
    return Instruction(CPMM, data, [slot.meta(keys | {"payer": payer}) for slot in CPMM_SLOTS[kind]])


# Amounts.


def cpmm_output(amount_in: int, reserve_in: int, reserve_out: int, fee_rate: int) -> tuple[int, int]:
    """Return what an exact input gives, and the trade fee in it."""
    fee = -(-amount_in * fee_rate // RATE_DENOMINATOR)
    net = amount_in - fee
    return reserve_out * net // (reserve_in + net), fee


def cpmm_input(amount_out: int, reserve_in: int, reserve_out: int, fee_rate: int) -> tuple[int, int] | None:
    """Return what an exact output costs, and the trade fee in it. None: the pool does not have so much."""
    if not 0 < amount_out < reserve_out:
        return None
    net = -(-reserve_in * amount_out // (reserve_out - amount_out))
    gross = -(-net * RATE_DENOMINATOR // (RATE_DENOMINATOR - fee_rate))
    return gross, gross - net
