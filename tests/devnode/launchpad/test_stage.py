import pytest
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.launch_programs.addresses import EVENT_AUTHORITY, PUMP, PUMP_FEES, SYSTEM_PROGRAM
from actors.launch_programs.events import InitUserVolumeAccumulatorEvent, decode_event
from devnode.launchpad import calls
from devnode.launchpad.faults import Fault
from devnode.launchpad.stage import EVENT_UNITS, Ref, Stage, Whole, run_piece
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


OWNED = Pubkey.from_bytes(b"\x31" * 32)
OTHER = Pubkey.from_bytes(b"\x32" * 32)


READONLY = (SYSTEM_PROGRAM, PUMP, PUMP_FEES, EVENT_AUTHORITY)


def stage_of(pad: Pad, units: int = 100_000) -> Stage:
    keys = (pad.user.pubkey(), OWNED, OTHER, SYSTEM_PROGRAM, PUMP, PUMP_FEES, EVENT_AUTHORITY)
    whole = Whole(keys, {key: index for index, key in enumerate(keys)}, Keypair().pubkey(), 32_768)
    pad.local.chain.vm.put(OWNED, Account(2 * SOL, bytes(10), PUMP, False, 0))
    refs = tuple(Ref(key, key == keys[0], key not in READONLY) for key in keys)
    return Stage(pad.local.chain.vm, whole, refs, b"", units)


def test_calls_are_logged_counted_and_recorded(pad: Pad) -> None:
    stage = stage_of(pad)
    stage.call(calls.transfer_lamports(pad.user.pubkey(), OTHER, SOL))
    (call,) = stage.calls
    assert (call.program_index, call.accounts, call.stack_height) == (3, bytes([0, 2]), 2)
    assert stage.units == 150 and stage.logs[0] == f"Program {SYSTEM_PROGRAM} invoke [2]"
    stage.call()
    assert len(stage.calls) == 1


def test_a_call_that_fails_fails_the_instruction(pad: Pad) -> None:
    """The error is the called program's; a call that leaves an account below its rent fails the transaction."""
    stage = stage_of(pad)
    with pytest.raises(Fault) as failed:
        stage.call(calls.transfer_lamports(pad.user.pubkey(), OTHER, 10**15))
    assert failed.value.cause == {"Custom": 1} and len(stage.calls) == 1
    with pytest.raises(Fault) as dust:
        stage.call(calls.transfer_lamports(pad.user.pubkey(), OTHER, 1))
    assert dust.value.whole == {"InsufficientFundsForRent": {"account_index": 2}}


def test_a_call_can_use_only_the_accounts_of_the_instruction(pad: Pad) -> None:
    """As in the runtime, other accounts are refused, and read-only accounts cannot be passed as writable."""
    user = pad.user.pubkey()
    for target, cause in ((Keypair().pubkey(), "MissingAccount"), (EVENT_AUTHORITY, "PrivilegeEscalation")):
        stage = stage_of(pad)
        with pytest.raises(Fault) as refused:
            stage.call(calls.transfer_lamports(user, target, SOL))
        assert refused.value.cause == cause and stage.calls == []
    with pytest.raises(Fault) as missing:
        stage_of(pad).call(Instruction(Keypair().pubkey(), b"", []))
    assert missing.value.cause == "MissingAccount"


def test_lamports_can_be_moved_only_from_a_sufficient_balance(pad: Pad) -> None:
    stage = stage_of(pad)
    stage.move(OWNED, OTHER, SOL)
    assert (stage.lamports(OWNED), stage.lamports(OTHER)) == (SOL, SOL)
    stage.move(OWNED, OWNED, SOL)
    with pytest.raises(Fault):
        stage.move(OWNED, OTHER, 2 * SOL)
    assert stage.lamports(OWNED) == SOL


def test_accounts_the_program_wrote_must_be_rent_exempt(pad: Pad) -> None:
    stage = stage_of(pad)
    stage.finish()
    stage.write(OWNED, bytes(12))
    stage.finish()
    stage.move(OWNED, OTHER, 2 * SOL - 5)
    with pytest.raises(Fault) as short:
        stage.finish()
    assert short.value.whole == {"InsufficientFundsForRent": {"account_index": 1}}


def test_an_event_is_a_log_line_and_an_inner_call(pad: Pad) -> None:
    stage = stage_of(pad)
    event = InitUserVolumeAccumulatorEvent(OTHER, OTHER, stage.timestamp)
    stage.emit(event)
    (call,) = stage.calls
    assert decode_event(call.data) == event and call.accounts == bytes([6]) and stage.units == EVENT_UNITS
    assert stage.logs[0].startswith("Program data: ") and stage.logs[-1] == f"Program {PUMP} success"


def test_an_imitated_call_has_return_data(pad: Pad) -> None:
    stage = stage_of(pad)
    child = calls.transfer_lamports(pad.user.pubkey(), OTHER, SOL)
    stage.pretend(Instruction(PUMP_FEES, b"ask", []), ("Instruction: Ask",), 500, children=(child,), returned=b"yes")
    assert [call.stack_height for call in stage.calls] == [2, 3] and stage.units == 650
    assert f"Program return: {PUMP_FEES} eWVz" in stage.logs and stage.return_data is not None
    assert f"Program {PUMP_FEES} consumed 650 of 100000 compute units" in stage.logs


def test_compute_units_run_out(pad: Pad) -> None:
    """The used units never exceed the limit."""
    stage = stage_of(pad, units=100)
    with pytest.raises(Fault) as out:
        stage.spend(101)
    assert out.value.cause == "ComputationalBudgetExceeded" and stage.units == 100
