import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import FIXED, instruction
from actors.launch_programs.curve_account import BondingCurve
from actors.launch_programs.events import CreateEvent, ExtendAccountEvent, InitUserVolumeAccumulatorEvent
from actors.launch_programs.instructions import Kind
from devnode.encoding.addresses import USDC_MINT
from devnode.launchpad import calls
from devnode.launchpad.genesis import INITIAL_VIRTUAL_USDC
from devnode.parsing.token_accounts import mint_supply
from tests.devnode.pad import Pad, events

FRESH = BondingCurve(
    *(1_073 * 10**12, 30 * 10**9, 793_100 * 10**9, 0, 10**15), initial_virtual_quote_reserves=30 * 10**9
)


@pytest.mark.parametrize("kind", [Kind.CREATE, Kind.CREATE_V2])
def test_a_new_coin_is_a_mint_its_supply_and_a_curve(pad: Pad, kind: Kind) -> None:
    """No authority can mint more, the curve has the whole supply, and its reserves are Global's initial values."""
    mint = Keypair()
    meta = pad.land(pad.creation(mint.pubkey(), kind), signers=(mint,))
    assert meta.err is None
    key, vm = mint.pubkey(), pad.local.chain.vm
    account = vm.account(key)
    program = addresses.TOKEN_PROGRAM if kind is Kind.CREATE else addresses.TOKEN_2022_PROGRAM
    assert account is not None and account.owner == program
    assert mint_supply(account.data) == 10**15 and account.data[44] == 6 and account.data[:4] == bytes(4)
    assert pad.tokens(pdas.associated_token(pdas.bonding_curve(key), program, key)) == 10**15
    curve = pad.curve(key)
    assert curve.creator == pad.user.pubkey() and curve.curve_type == "classic" and curve.quote_asset == "SOL"
    for name in ("virtual_token_reserves", "virtual_quote_reserves", "real_token_reserves", "real_quote_reserves"):
        assert getattr(curve, name) == getattr(FRESH, name)
    (event,) = events(meta)
    assert isinstance(event, CreateEvent) and (event.name, event.mint) == ("Some Coin", key)
    assert event.token_program == program and event.quote_mint == addresses.ZERO_KEY
    assert event.virtual_sol_reserves == event.virtual_quote_reserves == 30 * 10**9
    assert (100_000 if kind is Kind.CREATE else 90_000) < meta.compute_units < 140_000
    for touched in (key, pdas.bonding_curve(key)):
        held = vm.account(touched)
        assert held is not None and held.lamports == vm.rent_exempt_lamports(len(held.data))


def test_a_classic_coin_has_a_metadata_account(pad: Pad) -> None:
    """As on the real chain, it has 679 bytes and costs 15,616,720 lamports."""
    mint = pad.launch(Kind.CREATE)
    account = pad.local.chain.vm.account(pdas.token_metadata(mint))
    assert account is not None and account.owner == addresses.TOKEN_METADATA_PROGRAM
    assert (len(account.data), account.lamports) == (679, 15_616_720)
    assert account.data[0] == 4 and account.data[33:65] == bytes(mint)
    assert account.data[65:69] == (32).to_bytes(4, "little") and account.data[69:101].rstrip(b"\x00") == b"Some Coin"


@pytest.mark.parametrize("uri_bytes", [0, 17, 24, 25, 200])
def test_the_rent_of_metadata_of_any_length_is_paid(pad: Pad, uri_bytes: int) -> None:
    """24 bytes would make the size of a multisig account, so the token program adds two bytes."""
    mint = pad.launch(uri="u" * uri_bytes)
    account = pad.local.chain.vm.account(mint)
    assert account is not None and b"Some Coin" in account.data
    assert account.lamports == pad.local.chain.vm.rent_exempt_lamports(len(account.data))


def test_a_mayhem_coin_mints_its_supply_twice(pad: Pad) -> None:
    mint = pad.launch(is_mayhem=True)
    account = pad.local.chain.vm.account(mint)
    assert account is not None and mint_supply(account.data) == 2 * 10**15
    vault = pdas.associated_token(addresses.MAYHEM_SOL_VAULT, addresses.TOKEN_2022_PROGRAM, mint)
    assert pad.tokens(vault) == 10**15 and pad.curve(mint).is_mayhem_mode
    assert pad.curve(mint).token_total_supply == 10**15


def test_a_token_quote_is_stored_and_wsol_is_not(pad: Pad) -> None:
    """USDC is allowed by quote control; with WSOL the coin is a SOL coin, as on the real chain."""
    mint = pad.launch(quote=USDC_MINT)
    curve = pad.curve(mint)
    assert curve.quote_mint == USDC_MINT and curve.curve_type == "v2"
    assert curve.virtual_quote_reserves == INITIAL_VIRTUAL_USDC
    account = pdas.associated_token(pdas.bonding_curve(mint), addresses.TOKEN_PROGRAM, USDC_MINT)
    assert pad.local.chain.vm.account(account) is not None
    assert pad.curve(pad.launch(quote=addresses.WSOL_MINT)).quote_asset == "SOL"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"name": "n" * 33}, 6043),
        ({"symbol": "s" * 11}, 6044),
        ({"uri": "u" * 201}, 6045),
        ({"creator": addresses.ZERO_KEY}, 6030),
        ({"is_cashback": True}, 6082),
        ({"is_holder_reward": True}, 6084),
        ({"creator_fee_bps": 301}, 6078),
    ],
)
def test_invalid_launches_are_refused(pad: Pad, asked: dict[str, object], code: int) -> None:
    mint = Keypair()
    assert pad.error(pad.creation(mint.pubkey(), **asked), signers=(mint,)) == code  # type: ignore[arg-type]
    assert pad.local.chain.vm.account(mint.pubkey()) is None


def test_wrong_quotes_are_refused(pad: Pad) -> None:
    """Wrong: an unlisted mint, an account that is no mint, a token quote of a mayhem coin, no control account."""
    mint = Keypair()
    listed = pad.creation(mint.pubkey(), quote=USDC_MINT)
    other = pad.launch(Kind.CREATE)  # A mint of the same token program that is not a listed quote.
    assert pad.error(pad.creation(mint.pubkey(), quote=other), signers=(mint,)) == 6063
    assert pad.error(pad.creation(mint.pubkey(), quote=pad.user.pubkey()), signers=(mint,)) == 6064
    assert pad.error(pad.creation(mint.pubkey(), quote=USDC_MINT, is_mayhem=True), signers=(mint,)) == 6071
    short = Instruction(listed.program_id, listed.data, listed.accounts[:-1])
    assert pad.error(short, signers=(mint,)) == 6063
    fewer = Instruction(listed.program_id, listed.data, listed.accounts[:-2])
    assert pad.error(fewer, signers=(mint,)) == 3005


def test_a_read_only_quote_account_is_refused(pad: Pad) -> None:
    mint = Keypair()
    made = pad.creation(mint.pubkey(), quote=USDC_MINT)
    metas = [*made.accounts]
    metas[17] = type(metas[17])(metas[17].pubkey, False, False)
    refused = Instruction(made.program_id, made.data, metas)
    assert pad.error(refused, signers=(mint,)) == "PrivilegeEscalation"


def test_a_coin_is_created_once(pad: Pad) -> None:
    """The mint's address exists already, so the system program refuses."""
    mint = Keypair()
    assert pad.land(pad.creation(mint.pubkey()), signers=(mint,)).err is None
    assert pad.error(pad.creation(mint.pubkey()), signers=(mint,)) == 0


def test_a_creators_own_rate_is_charged(pad: Pad) -> None:
    assert pad.curve(pad.launch(creator_fee_bps=250)).creator_fee_bps == 250


def extend(pad: Pad, account: Pubkey) -> Instruction:
    keys = FIXED | {"account": account, "user": pad.user.pubkey()}
    return instruction(Kind.EXTEND_ACCOUNT, Kind.EXTEND_ACCOUNT.discriminator, keys)


def test_a_short_curve_grows_once(pad: Pad) -> None:
    """It grows from 49 bytes to 151, the user pays the missing rent, and a longer curve is refused."""
    mint = pad.launch()
    assert pad.error(extend(pad, pdas.bonding_curve(mint))) == 6009
    pad.change_curve(mint, size=49)
    meta = pad.land(extend(pad, pdas.bonding_curve(mint)))
    account = pad.local.chain.vm.account(pdas.bonding_curve(mint))
    assert meta.err is None and account is not None and len(account.data) == 151
    (event,) = events(meta)
    assert isinstance(event, ExtendAccountEvent) and (event.current_size, event.new_size) == (49, 151)
    assert pad.error(extend(pad, addresses.GLOBAL)) == 6010


def test_only_the_programs_own_accounts_grow(pad: Pad) -> None:
    assert pad.error(extend(pad, Keypair().pubkey())) == 3007
    volume = pdas.user_volume_accumulator(pad.user.pubkey())
    assert pad.land(init(pad)).err is None
    assert pad.error(extend(pad, volume)) == 6010


def init(pad: Pad) -> Instruction:
    user = pad.user.pubkey()
    keys = FIXED | {"payer": user, "user": user, "user_volume": pdas.user_volume_accumulator(user)}
    kind = Kind.INIT_USER_VOLUME_ACCUMULATOR
    return instruction(kind, kind.discriminator, keys)


def test_an_accumulator_is_made_once(pad: Pad) -> None:
    meta = pad.land(init(pad))
    assert meta.err is None
    (event,) = events(meta)
    assert isinstance(event, InitUserVolumeAccumulatorEvent) and event.user == pad.user.pubkey()
    account = pad.local.chain.vm.account(pdas.user_volume_accumulator(pad.user.pubkey()))
    assert account is not None and account.lamports == 1_844_400
    assert pad.error(init(pad)) == 0


def test_launch_and_first_buy_fit_one_transaction(pad: Pad) -> None:
    """The usual launch also creates the buyer's token account between the two."""
    mint, user = Keypair(), pad.user.pubkey()
    key, program = mint.pubkey(), addresses.TOKEN_2022_PROGRAM
    account = pdas.associated_token(user, program, key)
    made = calls.create_token_account(user, account, user, key, program, idempotent=True)
    assert pad.land(pad.creation(key), made, signers=(mint,)).err is None
    assert pad.tokens(account) == 0
