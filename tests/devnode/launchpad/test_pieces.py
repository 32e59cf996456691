from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import SYSTEM_PROGRAM
from devnode.launchpad import calls
from devnode.launchpad.pieces import Whole, run_piece
from tests.devnode.pad import SOL, Pad

SPONSOR = Pubkey.from_bytes(b"\x55" * 32)
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")


def whole_of(*keys: Pubkey) -> Whole:
    return Whole(keys, {key: index for index, key in enumerate(keys)}, SPONSOR, 32_768)


def test_a_piece_charges_no_fee_and_leaves_no_sponsor(pad: Pad) -> None:
    user, other = pad.user.pubkey(), Keypair().pubkey()
    whole = whole_of(other, SYSTEM_PROGRAM, user)
    had = pad.lamports(user)
    piece = run_piece(pad.local.chain.vm, whole, [calls.transfer_lamports(user, other, SOL)], 10_000)
    assert piece.err is None and piece.landed and piece.units == 150
    assert (pad.lamports(user), pad.lamports(other), pad.lamports(SPONSOR)) == (had - SOL, SOL, 0)


def test_errors_have_account_indexes_of_the_whole_transaction(pad: Pad) -> None:
    """An error has the instruction's number in the piece, and the account's index in the whole transaction."""
    user, other = pad.user.pubkey(), Keypair().pubkey()
    whole, vm = whole_of(other, SYSTEM_PROGRAM, user), pad.local.chain.vm
    good, poor = calls.transfer_lamports(user, other, SOL), calls.transfer_lamports(user, other, 10**15)
    failed = run_piece(vm, whole, [good, poor], 10_000)
    assert failed.failed_at == 1 and failed.cause == {"Custom": 1} and failed.landed
    dust = run_piece(vm, whole, [calls.transfer_lamports(user, other, 5)], 10_000)
    assert dust.failed_at is None and dust.err == {"InsufficientFundsForRent": {"account_index": 0}}
    assert pad.lamports(other) == 0


def test_a_missing_program_refuses_the_piece(pad: Pad) -> None:
    missing = Keypair().pubkey()
    piece = run_piece(pad.local.chain.vm, whole_of(missing), [Instruction(missing, b"", [])], 10_000)
    assert not piece.landed and piece.err is not None


def test_inner_calls_have_the_depth_of_the_whole_transaction(pad: Pad) -> None:
    """Depths in the log and stack heights count from the instructions of the whole transaction."""
    mint = pad.launch()
    user = pad.user.pubkey()
    make = pad.base_account(mint)
    whole = whole_of(*dict.fromkeys([user, make.program_id, *(meta.pubkey for meta in make.accounts)]))
    piece = run_piece(pad.local.chain.vm, whole, [make], 100_000, depth=1)
    assert piece.err is None
    assert piece.logs[0].endswith("invoke [2]") and any(line.endswith("invoke [3]") for line in piece.logs)
    assert {call.stack_height for call in piece.inner[0].instructions} == {3}


def test_the_compute_limit_is_the_rest_of_the_whole(pad: Pad) -> None:
    memo = Instruction(MEMO, b"x" * 100, [AccountMeta(pad.user.pubkey(), True, False)])
    piece = run_piece(pad.local.chain.vm, whole_of(MEMO, pad.user.pubkey()), [memo], 200)
    assert piece.failed_at == 0 and piece.units <= 200
