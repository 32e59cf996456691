from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.devnode.launchpad import calls
from actors.devnode.launchpad.pieces import Whole, run_piece
from actors.launch_programs.addresses import SYSTEM_PROGRAM

from .pad import SOL, Pad

SPONSOR = Pubkey.from_bytes(b"\x55" * 32)
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")


def whole_of(*keys: Pubkey) -> Whole:
    return Whole(keys, {key: index for index, key in enumerate(keys)}, SPONSOR, 32_768)


def test_a_piece_costs_nobody_a_fee_and_leaves_no_sponsor(pad: Pad) -> None:
    user, other = pad.user.pubkey(), Keypair().pubkey()
    whole = whole_of(other, SYSTEM_PROGRAM, user)
    had = pad.lamports(user)
    piece = run_piece(pad.local.chain.vm, whole, [calls.transfer_lamports(user, other, SOL)], 10_000)
    assert piece.err is None and piece.landed and piece.units == 150
    assert (pad.lamports(user), pad.lamports(other), pad.lamports(SPONSOR)) == (had - SOL, SOL, 0)


def test_errors_are_told_in_the_wholes_numbers(pad: Pad) -> None:
    """Which instruction of the piece, and which account of the whole transaction."""
    user, other = pad.user.pubkey(), Keypair().pubkey()
    whole, vm = whole_of(other, SYSTEM_PROGRAM, user), pad.local.chain.vm
    good, poor = calls.transfer_lamports(user, other, SOL), calls.transfer_lamports(user, other, 10**15)
    failed = run_piece(vm, whole, [good, poor], 10_000)
    assert failed.failed_at == 1 and failed.cause == {"Custom": 1} and failed.landed
    dust = run_piece(vm, whole, [calls.transfer_lamports(user, other, 5)], 10_000)
    assert dust.failed_at is None and dust.err == {"InsufficientFundsForRent": {"account_index": 0}}
    assert pad.lamports(other) == 0


def test_a_missing_program_refuses_the_piece(pad: Pad) -> None:
    nobody = Keypair().pubkey()
    piece = run_piece(pad.local.chain.vm, whole_of(nobody), [Instruction(nobody, b"", [])], 10_000)
    assert not piece.landed and piece.err is not None


def test_calls_below_are_as_deep_as_in_the_whole(pad: Pad) -> None:
    """Depth in the log and stack heights count from the transaction's own instructions."""
    mint = pad.launch()
    user = pad.user.pubkey()
    make = pad.base_account(mint)
    whole = whole_of(*dict.fromkeys([user, make.program_id, *(meta.pubkey for meta in make.accounts)]))
    piece = run_piece(pad.local.chain.vm, whole, [make], 100_000, depth=1)
    assert piece.err is None
    assert piece.logs[0].endswith("invoke [2]") and any(line.endswith("invoke [3]") for line in piece.logs)
    assert {call.stack_height for call in piece.inner[0].instructions} == {3}


def test_the_limit_is_what_the_whole_has_left(pad: Pad) -> None:
    memo = Instruction(MEMO, b"x" * 100, [AccountMeta(pad.user.pubkey(), True, False)])
    piece = run_piece(pad.local.chain.vm, whole_of(MEMO, pad.user.pubkey()), [memo], 200)
    assert piece.failed_at == 0 and piece.units <= 200
