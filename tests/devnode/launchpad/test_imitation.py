import base64
from collections.abc import Iterable
from typing import Any

import base58
import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.launch_programs import addresses, pdas
from actors.launch_programs.events import CreateEvent, TradeEvent, decode_event, encode_event
from actors.launch_programs.instructions import Kind
from devnode.chain.simulation import preflight, simulate
from devnode.chain.submissions import Source
from devnode.execution.execution import Refused
from devnode.launchpad import calls
from devnode.launchpad.genesis import program_account
from devnode.launchpad.programs import NOTICE
from devnode.records.commitment import Commitment
from devnode.records.records import InnerInstructions, TransactionRecord
from tests.devnode.local_node import decoded
from tests.devnode.pad import SOL, Pad, events
from tests.launch_programs.samples import sample

ED25519 = Pubkey.from_string("Ed25519SigVerify111111111111111111111111111")
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")


def landed_on_the_chain() -> tuple[VersionedTransaction, dict[str, Any]]:
    payload = sample("pump_create_v2_buy_blocksubscribe")["payload"]
    return VersionedTransaction.from_bytes(base64.b64decode(payload["transaction"][0])), payload["meta"]


def test_a_transaction_of_mainnet_has_the_same_results_here(pad: Pad) -> None:
    """A transaction with create_v2, associated account and buy has the inner instructions, logs and balances of
    mainnet. Different are only the notice in the log and the rent of the curve's longer account."""
    transaction, meta = landed_on_the_chain()
    keys = transaction.message.account_keys
    payer = keys[0]
    pad.local.faucet.airdrop(payer, meta["preBalances"][0])
    vm = pad.local.chain.vm
    before = [pad.lamports(key) for key in keys]
    vm.limit(600_000, 32_768)
    outcome = vm.execute(transaction, verify_signatures=False)
    assert outcome.err is None and outcome.landed and outcome.fee_lamports == meta["fee"]
    changes = [pad.lamports(key) - held for key, held in zip(keys, before, strict=True)]
    wanted = [after - held for held, after in zip(meta["preBalances"], meta["postBalances"], strict=True)]
    longer = vm.rent_exempt_lamports(166) - vm.rent_exempt_lamports(115)
    wanted[0] -= longer
    wanted[10] += longer  # The curve has 166 bytes now; in the sample it had 115.
    assert changes == wanted
    check_calls(outcome.inner, meta)
    check_logs(outcome.logs, meta["logMessages"])


def check_calls(inner: tuple[InnerInstructions, ...], meta: dict[str, Any]) -> None:
    found = [
        (group.index, call.stack_height, call.program_index, list(call.accounts), call.data)
        for group in inner
        for call in group.instructions
    ]
    there = [
        (group["index"], call["stackHeight"], call["programIdIndex"], call["accounts"], base58.b58decode(call["data"]))
        for group in meta["innerInstructions"]
        for call in group["instructions"]
    ]
    assert [call[:4] for call in found] == [call[:4] for call in there]
    curve = 3  # The call that creates the curve's account, which is longer now.
    for index, (ours, theirs) in enumerate(zip(found, there, strict=True)):
        if theirs[4].startswith(bytes.fromhex("e445a52e51cb9a1d")):
            # Today's event has further fields at its end, and another time.
            assert without_time(ours[4][8:], len(theirs[4]) - 8) == without_time(theirs[4][8:], len(theirs[4]) - 8)
        elif index != curve:
            assert ours[4] == theirs[4], index


def without_time(data: bytes, size: int) -> bytes:
    event = next(iter(events_in(data)))
    values = {name: getattr(event, name) for name, _ in event.FIELDS} | {"timestamp": 0}
    return encode_event(type(event)(**values))[:size]


def events_in(data: bytes) -> list[CreateEvent | TradeEvent]:
    event = decode_event(data)
    assert isinstance(event, CreateEvent | TradeEvent)
    return [event]


def check_logs(ours: tuple[str, ...], theirs: list[str]) -> None:
    def words(lines: Iterable[str]) -> list[str]:
        skipped = ("Program data:", f"Program log: {NOTICE}")
        return [line.partition(" consumed ")[0] for line in lines if not line.startswith(skipped)]

    assert words(ours) == words(theirs)


def test_all_of_a_transaction_lands_or_none(pad: Pad) -> None:
    """A failure after the trade undoes the trade and all instructions before it; the fee stays charged."""
    mint = pad.launch()
    buy = [pad.base_account(mint), pad.trade(mint, Kind.BUY, 10**12, SOL)]
    too_much = transfer(TransferParams(from_pubkey=pad.user.pubkey(), to_pubkey=mint, lamports=10**15))
    curve = pad.curve(mint)
    assert pad.error(*buy, too_much) == 1
    assert pad.curve(mint) == curve and pad.tokens(pad.keys(mint)["user_base"]) == 0
    assert pad.land(*buy).err is None
    assert pad.tokens(pad.keys(mint)["user_base"]) == 10**12


def test_real_instructions_run_between_imitated_ones(pad: Pad) -> None:
    """Each sees the changes of the one before: launch, account, buy, transfer of bought tokens, sale of the rest."""
    mint = Keypair()
    key, user, program = mint.pubkey(), pad.user.pubkey(), addresses.TOKEN_2022_PROGRAM
    other = Keypair().pubkey()
    mine, theirs = (pdas.associated_token(owner, program, key) for owner in (user, other))
    assert pad.land(pad.creation(key), signers=(mint,)).err is None
    meta = pad.land(
        pad.base_account(key),
        pad.trade(key, Kind.BUY, 5 * 10**12, SOL),
        calls.create_token_account(user, theirs, other, key, program),
        calls.transfer_tokens(program, mine, key, theirs, user, 2 * 10**12, 6),
        pad.trade(key, Kind.SELL, 3 * 10**12, 0),
    )
    assert meta.err is None
    assert (pad.tokens(mine), pad.tokens(theirs)) == (0, 2 * 10**12)
    assert [group.index for group in meta.inner] == [0, 1, 2, 4]
    assert [type(event) for event in events(meta)] == [TradeEvent, TradeEvent]


def test_fees_and_limits_are_the_transactions_own(pad: Pad) -> None:
    """Price and limit are charged as for any transaction; the instruction that exceeds the limit fails."""
    mint = pad.coin()
    trade = pad.trade(mint, Kind.BUY, 10**9, SOL)
    meta = pad.land(set_compute_unit_limit(100_000), set_compute_unit_price(1_000_000), trade)
    assert meta.err is None and meta.fee_lamports == 5_000 + 100_000
    assert 60_000 < meta.compute_units < 100_000
    record = pad.record(set_compute_unit_limit(50_000), trade)
    assert record.meta.err == {"InstructionError": [1, "ComputationalBudgetExceeded"]}
    assert record.meta.compute_units <= 50_000
    record = pad.record(set_compute_unit_limit(66_000), trade)
    assert record.meta.err == {"InstructionError": [1, "ComputationalBudgetExceeded"]}


def test_signature_checks_are_paid_for(pad: Pad) -> None:
    """A native signature check in the same transaction costs the fee of a signature."""
    mint, signer = pad.coin(), Keypair()
    trade = pad.trade(mint, Kind.BUY, 10**9, SOL)
    message, key = b"agreed", bytes(signer.pubkey())
    signed = bytes(signer.sign_message(message))
    offsets = [48, 0xFFFF, 16, 0xFFFF, 48 + 64, len(message), 0xFFFF]
    header = bytes((1, 0)) + b"".join(number.to_bytes(2, "little") for number in offsets)
    check = Instruction(ED25519, header + key + signed + message, [])
    meta = pad.land(check, trade)
    assert meta.err is None and meta.fee_lamports == 10_000
    assert meta.logs[0] == f"Program {ED25519} invoke [1]"
    forged = Instruction(ED25519, header + key + bytes(64) + message, [])
    record = pad.local.chain.submit(bytes(pad.transaction(trade, forged)), Source.RPC)
    assert not isinstance(record, TransactionRecord) or record.meta.err["InstructionError"][0] == 1


def test_the_error_of_a_budget_instruction_has_its_number(pad: Pad) -> None:
    mint = pad.launch()
    trade = pad.trade(mint, Kind.BUY, 10**9, SOL)
    twice = pad.transaction(trade, set_compute_unit_limit(1), set_compute_unit_limit(2))
    refused = pad.local.chain.submit(bytes(twice), Source.RPC)
    assert isinstance(refused, Refused) and refused.err == {"DuplicateInstruction": 2}


def test_a_transaction_without_funds_or_signature_is_refused_without_a_fee(pad: Pad) -> None:
    mint = pad.launch()
    curve = pad.curve(mint)
    good = pad.transaction(pad.base_account(mint), pad.trade(mint, Kind.BUY, 10**9, SOL))
    forged = VersionedTransaction.populate(good.message, [Keypair().sign_message(b"x")])
    refused = pad.local.chain.submit(bytes(forged), Source.RPC)
    assert isinstance(refused, Refused) and refused.err == "SignatureFailure"
    poor = Keypair()
    trade = pad.trade(mint, Kind.BUY, 10**9, SOL, user=poor.pubkey())
    message = MessageV0.try_compile(poor.pubkey(), [trade], [], pad.local.blockhash())
    refused = pad.local.chain.submit(bytes(VersionedTransaction(message, [poor])), Source.RPC)
    assert isinstance(refused, Refused) and refused.err == "AccountNotFound"
    assert pad.curve(mint) == curve


def test_a_missing_program_refuses_the_whole_transaction(pad: Pad) -> None:
    """As in the runtime, no fee is charged, although a trade ran before."""
    mint = pad.coin()
    before = pad.lamports(pad.user.pubkey())
    missing = Instruction(Keypair().pubkey(), b"", [])
    pad.local.beat()
    raw = bytes(pad.transaction(pad.trade(mint, Kind.BUY, 10**9, SOL), missing))
    assert isinstance(pad.local.chain.submit(raw, Source.RPC), Refused)
    assert pad.lamports(pad.user.pubkey()) == before and pad.curve(mint).real_quote_reserves == 0


@pytest.mark.parametrize("version", ["legacy", "v1"])
def test_every_version_of_transaction_works(pad: Pad, version: str) -> None:
    mint = pad.coin()
    trade = pad.trade(mint, Kind.BUY, 10**9, SOL)
    user, blockhash = pad.user.pubkey(), pad.local.blockhash()
    message: Message | MessageV1
    if version == "legacy":
        message = Message.new_with_blockhash([trade], user, blockhash)
    else:
        config = TransactionConfig(
            priority_fee=777, compute_unit_limit=200_000, loaded_accounts_data_size_limit=1_000_000
        )
        message = MessageV1.try_compile(user, [trade], blockhash, config=config)
    record = pad.local.land(VersionedTransaction(message, [pad.user]))
    assert record.meta.err is None
    assert record.meta.fee_lamports == (5_000 if version == "legacy" else 5_777)
    assert pad.tokens(pad.keys(mint)["user_base"]) == 10**9


def test_simulation_and_preflight_have_the_real_outcome(pad: Pad) -> None:
    """At every commitment they have the trade's outcome and change no balance."""
    mint = pad.coin()
    good = decoded(pad.transaction(pad.trade(mint, Kind.BUY, 10**9, SOL)))
    bad = decoded(pad.transaction(pad.trade(mint, Kind.BUY, 10**9, 1)))
    pad.local.finalize()
    chain = pad.local.chain
    before, curve = pad.lamports(pad.user.pubkey()), pad.curve(mint)
    for level in Commitment:
        assert preflight(chain, good, level) is None
        failure = preflight(chain, bad, level)
        assert failure is not None and failure.err == {"InstructionError": [0, {"Custom": 6002}]}
        done = simulate(chain, good, level, verify_signatures=True, fresh=False)
        assert done.err is None and 10**9 in {balance.amount for balance in done.post_tokens}
    assert pad.lamports(pad.user.pubkey()) == before and pad.curve(mint) == curve
    landed = chain.submit(good.raw, Source.RPC)
    assert isinstance(landed, TransactionRecord) and landed.meta.logs == done.outcome.logs


def test_the_log_has_the_notice_of_the_imitation(pad: Pad) -> None:
    """Every imitated transaction has the notice, and no other."""
    mint = pad.launch()
    meta = pad.land(pad.base_account(mint), pad.trade(mint, Kind.BUY, 10**9, SOL))
    assert f"Program log: {NOTICE}" in meta.logs
    assert not any(NOTICE in line for line in pad.land(pad.base_account(mint)).logs)


def test_unknown_instructions_fail_with_a_clear_error(pad: Pad) -> None:
    """The error has Anchor's number; the log names an instruction that only the real program has."""
    accounts = [AccountMeta(pad.user.pubkey(), True, True)]
    assert pad.error(Instruction(addresses.PUMP, b"nonsense", accounts)) == 101
    assert pad.error(Instruction(addresses.PUMP, b"", [])) == 101
    meta = pad.land(Instruction(addresses.PUMP, Kind.MULTI_HOP_CURVE_SWAP.discriminator, accounts))
    assert any("does not imitate MultiHopCurveSwap" in line for line in meta.logs)


def test_a_loaded_program_ends_the_imitation(pad: Pad) -> None:
    """The test loads the memo program at the platform's address; then the VM runs it, and it reads the data as a
    memo."""
    chain = pad.local.chain
    memo = chain.vm.account(MEMO)
    assert memo is not None
    chain.place(addresses.PUMP, memo)
    meta = pad.land(Instruction(addresses.PUMP, b"hello", [AccountMeta(pad.user.pubkey(), True, True)]))
    assert meta.err is None and any("hello" in line for line in meta.logs)
    assert not any(NOTICE in line for line in meta.logs)
    chain.place(addresses.PUMP, program_account(addresses.PUMP))
    assert pad.error(Instruction(addresses.PUMP, b"nonsense", [])) == 101


def test_a_transaction_that_does_not_call_the_program_is_not_imitated(pad: Pad) -> None:
    """The program's address among the accounts or in the data is not a call."""
    chain = pad.local.chain
    named = Instruction(MEMO, bytes(addresses.PUMP)[:0] + b"x", [AccountMeta(pad.user.pubkey(), True, False)])
    data = transfer(TransferParams(from_pubkey=pad.user.pubkey(), to_pubkey=addresses.PUMP, lamports=1))
    assert chain.vm.imitation is not None
    for instruction in (named, data):
        assert not chain.vm.imitation.handles(pad.transaction(instruction))
    assert chain.vm.imitation.handles(pad.transaction(Instruction(addresses.PUMP, b"", [])))
