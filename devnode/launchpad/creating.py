"""Imitation of create and create_v2: a mint, its whole supply in the curve's token account, and the curve.

Implements: the program's calls in the order of samples of the chain; classic coins (SPL Token, metadata in an account
of the metadata program), create_v2 coins (Token-2022, metadata in the mint), mayhem coins (the supply a second time for
the mayhem vault) and token quotes; extend_account and init_user_volume_accumulator.
Not imitated: the state account of the mayhem program, because its layout is unknown; it is not created.
"""

from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import CREATE_V2_QUOTE_SLOTS, FIXED, SLOTS, Keys, coin_keys
from actors.launch_programs.borsh import encode
from actors.launch_programs.configs import Global, user_volume_accumulator_bytes
from actors.launch_programs.curve_account import (
    CURVE_BYTES,
    CURVE_BYTES_EXTENDED,
    DISCRIMINATOR,
    BondingCurve,
    encode_curve,
)
from actors.launch_programs.events import CreateEvent, ExtendAccountEvent, InitUserVolumeAccumulatorEvent
from actors.launch_programs.instructions import CreateArguments, Kind, create_arguments
from devnode.encoding.addresses import MULTISIG_BYTES
from devnode.launchpad import calls
from devnode.launchpad.faults import Fault
from devnode.launchpad.reading import Passed, global_of, quote_control_of, require_addresses
from devnode.launchpad.stage import Stage
from devnode.parsing.token_accounts import is_mint

DECIMALS = 6
NAME_BYTES_MAX, SYMBOL_BYTES_MAX, URI_BYTES_MAX = 32, 10, 200  # The metadata program's limits, for create_v2 too.
_MINT_BYTES = 82
_MINT_2022_BYTES = 234  # With the metadata pointer; the metadata follows.
_METADATA_BYTES = 679
_METADATA_FEE_LAMPORTS = 10_000_000
# Compute units of the program itself: totals of samples without their calls.
_OWN_UNITS = {Kind.CREATE: 72_000, Kind.CREATE_V2: 64_500, Kind.EXTEND_ACCOUNT: 9_500}
_METADATA_UNITS = 36_000
_VOLUME_UNITS = 6_000


@dataclass(frozen=True, slots=True)
class _Quote:
    """The quote of a new coin. mint: the zero key for SOL."""

    mint: Pubkey
    program: Pubkey
    account: Pubkey
    initial_reserves: int


def create(stage: Stage, kind: Kind) -> None:
    arguments = create_arguments(stage.data)
    if arguments is None:
        raise Fault.number(102)
    passed = Passed.of(stage, SLOTS[kind])
    program = addresses.TOKEN_PROGRAM if kind is Kind.CREATE else addresses.TOKEN_2022_PROGRAM
    keys = coin_keys(passed["mint"], program) | {"user": passed["user"]}
    require_addresses(passed, keys)
    config = global_of(stage)
    _check(kind, config, arguments)
    stage.spend(_OWN_UNITS[kind])
    quote = _quote_of(stage, config, arguments, keys) if kind is Kind.CREATE_V2 else _sol(config)
    if kind is Kind.CREATE:
        _make_classic(stage, arguments, keys)
    else:
        _make_v2(stage, arguments, keys, quote)
    curve = _new_curve(config, arguments, quote)
    stage.write(keys["bonding_curve"], encode_curve(curve))
    stage.emit(_event(stage, arguments, keys, curve))


def _check(kind: Kind, config: Global, arguments: CreateArguments) -> None:
    bounds = ((arguments.name, NAME_BYTES_MAX), (arguments.symbol, SYMBOL_BYTES_MAX), (arguments.uri, URI_BYTES_MAX))
    for code, (text, most) in zip((6043, 6044, 6045), bounds, strict=True):
        if len(text.encode()) > most:
            raise Fault.number(code)
    if arguments.creator == addresses.ZERO_KEY:
        raise Fault.number(6030)
    if kind is Kind.CREATE:
        return
    if not config.create_v2_enabled:
        raise Fault.number(6046)
    if arguments.is_cashback:
        raise Fault.number(6082)
    if arguments.is_mayhem and not config.mayhem_mode_enabled:
        raise Fault.number(6048)
    if arguments.is_holder_reward and not config.is_holder_reward_enabled:
        raise Fault.number(6084)
    if arguments.creator_fee_bps and not config.creator_fee_configurable:
        raise Fault.number(6077)
    if arguments.creator_fee_bps > config.max_configurable_creator_fee_bps:
        raise Fault.number(6078)


def _sol(config: Global) -> _Quote:
    return _Quote(addresses.ZERO_KEY, addresses.TOKEN_PROGRAM, addresses.ZERO_KEY, config.initial_virtual_sol_reserves)


def _quote_of(stage: Stage, config: Global, arguments: CreateArguments, keys: Keys) -> _Quote:
    """The quote of the trailing accounts. No accounts, or WSOL, means a SOL coin."""
    more = [ref.pubkey for ref in stage.refs[len(SLOTS[Kind.CREATE_V2]) :]]
    if not more or more[0] == addresses.WSOL_MINT:
        return _sol(config)
    if len(more) < len(CREATE_V2_QUOTE_SLOTS) - 1:
        raise Fault.number(3005)
    mint, account, program = more[:3]
    if arguments.is_mayhem:
        raise Fault.number(6071)
    held = stage.account(mint)
    if held is None or program != held.owner or program not in addresses.TOKEN_PROGRAMS or not is_mint(held.data):
        raise Fault.number(6064)
    if account != pdas.associated_token(keys["bonding_curve"], program, mint):
        raise Fault.number(6065)
    if mint == addresses.NATIVE_MINT_2022:
        raise Fault.number(6063)
    if mint in config.whitelisted_quote_mints:
        return _Quote(mint, program, account, config.initial_virtual_quote_reserves)
    if len(more) < len(CREATE_V2_QUOTE_SLOTS):
        raise Fault.number(6063)
    reserves = quote_control_of(stage, more[3]).initial_virtual_quote_reserves(mint)
    if reserves is None:
        raise Fault.number(6063)
    return _Quote(mint, program, account, reserves)


def _make_classic(stage: Stage, arguments: CreateArguments, keys: Keys) -> None:
    mint, user, program, authority = keys["mint"], keys["user"], keys["base_program"], addresses.MINT_AUTHORITY
    stage.call(
        calls.create_account(user, mint, stage.rent(_MINT_BYTES), _MINT_BYTES, program),
        calls.initialize_mint(program, mint, DECIMALS, authority),
        calls.create_account(user, keys["bonding_curve"], stage.rent(CURVE_BYTES), CURVE_BYTES, addresses.PUMP),
        calls.create_token_account(user, keys["curve_base"], keys["bonding_curve"], mint, program),
    )
    _make_metadata(stage, arguments, keys)
    stage.call(
        calls.mint_to(program, mint, keys["curve_base"], authority, global_of(stage).token_total_supply),
        calls.give_up_minting(program, mint, authority),
    )


def _make_metadata(stage: Stage, arguments: CreateArguments, keys: Keys) -> None:
    """Imitate the call to the metadata program."""
    metadata, authority = keys["metadata"], addresses.MINT_AUTHORITY
    texts = {"name": arguments.name, "symbol": arguments.symbol, "uri": arguments.uri}
    data = b"\x21" + encode((("name", "string"), ("symbol", "string"), ("uri", "string")), texts) + bytes(7)
    accounts = [
        *(AccountMeta(metadata, False, True), AccountMeta(keys["mint"], False, False)),
        *(AccountMeta(authority, True, False), AccountMeta(keys["user"], True, True)),
        *(AccountMeta(authority, False, False), AccountMeta(addresses.SYSTEM_PROGRAM, False, False)),
    ]
    lamports = stage.rent(_METADATA_BYTES) + _METADATA_FEE_LAMPORTS
    stage.pretend(
        Instruction(addresses.TOKEN_METADATA_PROGRAM, data, accounts),
        ("IX: Create Metadata Accounts v3",),
        _METADATA_UNITS,
        children=(
            calls.transfer_lamports(keys["user"], metadata, lamports),
            calls.allocate(metadata, _METADATA_BYTES),
            calls.assign(metadata, addresses.TOKEN_METADATA_PROGRAM),
        ),
    )
    stage.write(metadata, metadata_bytes(arguments, keys["mint"]))


def metadata_bytes(arguments: CreateArguments, mint: Pubkey) -> bytes:
    """A metadata account, version 1: texts padded to their maximum length, fungible, immutable."""
    data = b"\x04" + bytes(addresses.MINT_AUTHORITY) + bytes(mint)
    bounds = ((arguments.name, NAME_BYTES_MAX), (arguments.symbol, SYMBOL_BYTES_MAX), (arguments.uri, URI_BYTES_MAX))
    for text, size in bounds:
        data += size.to_bytes(4, "little") + text.encode().ljust(size, b"\x00")
    bump = Pubkey.find_program_address(
        [b"metadata", bytes(addresses.TOKEN_METADATA_PROGRAM), bytes(mint)], addresses.TOKEN_METADATA_PROGRAM
    )[1]
    data += bytes(2) + bytes(3)  # No seller's fee; no creators, never sold, not mutable.
    data += bytes((1, bump)) + bytes((1, 2))  # Edition nonce; token standard: fungible.
    return data.ljust(_METADATA_BYTES, b"\x00")


def _mint_bytes(texts: tuple[str, ...]) -> int:
    """The size of a mint with its metadata. The token program avoids the size of a multisig account."""
    size = _MINT_2022_BYTES + 4 + 64 + sum(4 + len(text.encode()) for text in texts) + 4
    return size + 2 if size == MULTISIG_BYTES else size


def _make_v2(stage: Stage, arguments: CreateArguments, keys: Keys, quote: _Quote) -> None:
    mint, user, program, authority = keys["mint"], keys["user"], keys["base_program"], addresses.MINT_AUTHORITY
    curve = keys["bonding_curve"]
    texts = (arguments.name, arguments.symbol, arguments.uri)
    more_rent = stage.rent(_mint_bytes(texts)) - stage.rent(_MINT_2022_BYTES)
    supply = global_of(stage).token_total_supply
    made = [
        calls.create_account(user, mint, stage.rent(_MINT_2022_BYTES), _MINT_2022_BYTES, program),
        calls.initialize_metadata_pointer(program, mint),
        calls.initialize_mint(program, mint, DECIMALS, authority),
        calls.create_account(user, curve, stage.rent(CURVE_BYTES), CURVE_BYTES, addresses.PUMP),
        calls.create_token_account(user, keys["curve_base"], curve, mint, program),
    ]
    if quote.mint != addresses.ZERO_KEY:
        made.append(calls.create_token_account(user, quote.account, curve, quote.mint, quote.program))
    if arguments.is_mayhem:
        vault, owner = keys["mayhem_token_vault"], addresses.MAYHEM_SOL_VAULT
        made.append(calls.create_token_account(user, vault, owner, mint, program))
    made += [
        calls.transfer_lamports(user, mint, more_rent),
        calls.initialize_token_metadata(program, mint, authority, *texts),
        calls.give_up_token_metadata(program, mint, authority),
        calls.mint_to(program, mint, keys["curve_base"], authority, supply),
    ]
    if arguments.is_mayhem:
        made.append(calls.mint_to(program, mint, keys["mayhem_token_vault"], authority, supply))
    stage.call(*made, calls.give_up_minting(program, mint, authority))


def _new_curve(config: Global, arguments: CreateArguments, quote: _Quote) -> BondingCurve:
    return BondingCurve(
        virtual_token_reserves=config.initial_virtual_token_reserves,
        virtual_quote_reserves=quote.initial_reserves,
        real_token_reserves=config.initial_real_token_reserves,
        real_quote_reserves=0,
        token_total_supply=config.token_total_supply,
        creator=arguments.creator,
        is_mayhem_mode=arguments.is_mayhem,
        quote_mint=quote.mint,
        creator_fee_bps=arguments.creator_fee_bps,
        initial_virtual_quote_reserves=quote.initial_reserves,
    )


def _event(stage: Stage, arguments: CreateArguments, keys: Keys, curve: BondingCurve) -> CreateEvent:
    return CreateEvent(
        name=arguments.name,
        symbol=arguments.symbol,
        uri=arguments.uri,
        mint=keys["mint"],
        bonding_curve=keys["bonding_curve"],
        user=keys["user"],
        creator=curve.creator,
        timestamp=stage.timestamp,
        virtual_token_reserves=curve.virtual_token_reserves,
        virtual_sol_reserves=curve.virtual_quote_reserves if curve.curve_type == "classic" else 0,
        real_token_reserves=curve.real_token_reserves,
        token_total_supply=curve.token_total_supply,
        token_program=keys["base_program"],
        is_mayhem_mode=curve.is_mayhem_mode,
        quote_mint=curve.quote_mint,
        virtual_quote_reserves=curve.virtual_quote_reserves,
        creator_fee_bps=curve.creator_fee_bps,
    )


def extend_account(stage: Stage, kind: Kind) -> None:
    passed = Passed.of(stage, SLOTS[kind])
    require_addresses(passed, {"user": passed["user"], "account": passed["account"]} | FIXED)
    stage.spend(_OWN_UNITS[kind])
    account = stage.account(passed["account"])
    if account is None or account.owner != addresses.PUMP:
        raise Fault.number(3007, "account")
    size = len(account.data)
    if account.data[:8] != DISCRIMINATOR:
        raise Fault.number(6010)
    if size >= CURVE_BYTES_EXTENDED:
        raise Fault.number(6009)
    grow(stage, passed["user"], passed["account"], CURVE_BYTES_EXTENDED)
    stage.emit(ExtendAccountEvent(passed["account"], passed["user"], size, CURVE_BYTES_EXTENDED, stage.timestamp))


def grow(stage: Stage, payer: Pubkey, address: Pubkey, size: int) -> None:
    """Extend an account of the program to the size, if it is shorter; the payer pays the missing rent."""
    account = stage.account(address)
    assert account is not None, address
    if len(account.data) >= size:
        return
    missing = stage.rent(size) - account.lamports
    if missing > 0:
        stage.call(calls.transfer_lamports(payer, address, missing))
    stage.write(address, account.data.ljust(size, b"\x00"))


def init_user_volume_accumulator(stage: Stage, kind: Kind) -> None:
    passed = Passed.of(stage, SLOTS[kind])
    volume = pdas.user_volume_accumulator(passed["user"])
    keys = {"payer": passed["payer"], "user": passed["user"], "user_volume": volume}
    require_addresses(passed, keys | FIXED)
    make_volume_accumulator(stage, passed["payer"], passed["user"])
    stage.spend(_VOLUME_UNITS)
    stage.emit(InitUserVolumeAccumulatorEvent(passed["payer"], passed["user"], stage.timestamp))


def make_volume_accumulator(stage: Stage, payer: Pubkey, user: Pubkey) -> None:
    address, data = pdas.user_volume_accumulator(user), user_volume_accumulator_bytes(user)
    stage.call(calls.create_account(payer, address, stage.rent(len(data)), len(data), addresses.PUMP))
    stage.write(address, data)
