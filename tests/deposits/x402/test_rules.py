"""The rules for payments: those of the official clients pass, and none that could cost the sponsor more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.deposits.x402.rules import (
    COMPUTE_BUDGET,
    LIGHTHOUSE,
    TOKEN_2022,
    Payment,
    Unfit,
    check_relayed,
    check_standard,
)
from tests.deposits.x402_making import (
    DEPOSIT,
    MEMO,
    MINT,
    PAYER,
    RULES,
    SELF_PAID_ONLY,
    SPONSOR,
    half_signed,
    memo,
    message_of,
    old_transfer,
    self_paid,
    sponsored,
    standard,
    token_account,
    transfer_checked,
)

GUARD = Instruction(LIGHTHOUSE, b"\x05\x00", [AccountMeta(PAYER.pubkey(), False, False)])
OTHER = Keypair.from_seed(bytes(31) + b"\x0f")


def refused(found: Payment | Unfit) -> str:
    assert isinstance(found, Unfit), found
    assert found.message
    return found.reason.removeprefix("invalid_exact_svm_payload_")


@pytest.mark.parametrize(
    "instructions",
    [
        standard(),
        standard()[:3],  # Releases before 2.3.0, and the legacy client, add no memo.
        standard(100_000, GUARD, GUARD, GUARD),
        [*standard()[:3], GUARD, GUARD, memo()],
    ],
)
def test_every_published_client_layout_is_taken(instructions):
    """As the official clients pay: limit, price, TransferChecked, then guards of wallets and a memo."""
    found = check_standard(sponsored(*instructions), RULES, 100_000)
    assert isinstance(found, Payment), found
    assert (found.payer, found.amount_base_units, found.sponsored) == (PAYER.pubkey(), 100_000, True)


def guard(kind: int, *read: Pubkey) -> Instruction:
    return Instruction(LIGHTHOUSE, bytes([kind, 0]), [AccountMeta(key, False, False) for key in read])


def test_a_wallets_guards_read_the_payers_own_accounts():
    """Of the kinds that compare an account's data, its head or its token fields, once or several times."""
    own = token_account(PAYER.pubkey())
    for kind in (2, 3, 5, 6, 9, 10):
        for read in ((PAYER.pubkey(),), (own,), (own, PAYER.pubkey())):
            raw = sponsored(*standard(100_000, guard(kind, *read)))
            assert isinstance(check_standard(raw, RULES, 1), Payment)


@pytest.mark.parametrize(
    "added",
    [
        guard(15),  # The clock; by itself it takes no account, and an account beside it changes nothing.
        guard(15, PAYER.pubkey()),
        guard(5),
        guard(5, OTHER.pubkey()),
        guard(5, PAYER.pubkey(), OTHER.pubkey()),
        guard(7, MINT),
        guard(9, token_account(DEPOSIT)),
        guard(4, PAYER.pubkey(), token_account(PAYER.pubkey())),
        guard(0, PAYER.pubkey()),  # Writes.
        guard(1, PAYER.pubkey()),
        guard(16, PAYER.pubkey()),
        guard(255, PAYER.pubkey()),
        Instruction(LIGHTHOUSE, b"", [AccountMeta(PAYER.pubkey(), False, False)]),
    ],
)
def test_a_condition_that_its_payer_can_break_for_free_is_refused(added):
    """Threat 52: it would pass in the simulation and fail on the chain, at the sponsor's cost."""
    raw = sponsored(*standard(100_000, GUARD, added))
    assert refused(check_standard(raw, RULES, 1)) == "transaction_instructions_guard"


def test_what_arrives_is_what_is_taken():
    """A larger amount is accepted, a smaller one is refused."""
    found = check_standard(sponsored(*standard(150_000)), RULES, 100_000)
    assert isinstance(found, Payment) and found.amount_base_units == 150_000
    assert refused(check_standard(sponsored(*standard(99_999)), RULES, 100_000)) == "amount_insufficient"
    assert refused(check_standard(sponsored(*standard(9_999)), RULES, 1)) == "amount_insufficient"


def test_the_fee_payer_occurs_nowhere_else():
    """Threat 24: as a writable account, as an authority, as a program, or listed twice."""
    as_account = Instruction(LIGHTHOUSE, b"\x00", [AccountMeta(SPONSOR.pubkey(), False, True)])
    assert "fee_payer" in refused(check_standard(sponsored(*standard(100_000, as_account)), RULES, 1))
    reading = Instruction(LIGHTHOUSE, b"\x00", [AccountMeta(SPONSOR.pubkey(), False, False)])
    assert "fee_payer" in refused(check_standard(sponsored(*standard(100_000, reading)), RULES, 1))
    own = transfer_checked(payer=SPONSOR.pubkey())
    message = message_of([*standard()[:2], own])
    raw = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    assert isinstance(check_standard(raw, RULES, 1), Unfit)
    assert isinstance(check_relayed(sponsored(transfer_checked(source=SPONSOR.pubkey())), RULES), Unfit)


def test_a_fee_payer_listed_twice_is_refused():
    """Threat 24: the second listing could be an instruction's account under another number."""
    message = message_of(standard())
    keys = [*message.account_keys]
    keys[-1] = SPONSOR.pubkey()
    twice = MessageV0(message.header, keys, message.recent_blockhash, message.instructions, [])
    assert refused(check_standard(half_signed(twice), RULES, 1)) == "missing_fee_payer"


def test_lookup_tables_hide_nothing():
    """Threat 24: accounts that are not in the transaction are not signed for, nor relayed."""
    table = AddressLookupTableAccount(Pubkey.new_unique(), [token_account(DEPOSIT), token_account(PAYER.pubkey())])
    message = MessageV0.try_compile(SPONSOR.pubkey(), standard(), [table], message_of(standard()).recent_blockhash)
    assert refused(check_standard(half_signed(message), RULES, 1)) == "transaction_lookup_tables"
    own = MessageV0.try_compile(PAYER.pubkey(), [transfer_checked()], [table], message.recent_blockhash)
    raw = bytes(VersionedTransaction(own, [PAYER]))
    assert refused(check_relayed(raw, RULES)) == "transaction_lookup_tables"


@pytest.mark.parametrize(
    ("limit", "price", "reason"),
    [
        (200_001, 1, "transaction_instructions_compute_limit_instruction_too_high"),
        (1_400_000, 1, "transaction_instructions_compute_limit_instruction_too_high"),
        (20_000, 50_001, "transaction_instructions_compute_price_instruction_too_high"),
        (20_000, 10**9, "transaction_instructions_compute_price_instruction_too_high"),
    ],
)
def test_the_network_fee_is_capped(limit, price, reason):
    """Threat 24: a price of 10^9 would cost the sponsor its whole balance."""
    assert refused(check_standard(sponsored(*standard(limit=limit, price=price)), RULES, 1)) == reason
    assert isinstance(check_standard(sponsored(*standard(limit=200_000, price=50_000)), RULES, 1), Payment)


def test_a_second_price_is_no_way_round_the_cap():
    """After the transfer only guards and memos are allowed."""
    raw = sponsored(*standard(100_000, set_compute_unit_price(10**9)))
    assert refused(check_standard(raw, RULES, 1)) == "transaction_instructions_unknown_program"
    raw = sponsored(set_compute_unit_price(1), set_compute_unit_limit(20_000), transfer_checked())
    assert refused(check_standard(raw, RULES, 1)).startswith("transaction_instructions_compute_limit")
    short = Instruction(COMPUTE_BUDGET, b"\x02\x00", [])
    assert refused(
        check_standard(sponsored(short, set_compute_unit_price(1), transfer_checked()), RULES, 1)
    ).startswith("transaction_instructions_compute_limit")


@pytest.mark.parametrize("second", [memo(), set_compute_unit_limit(1), Instruction(COMPUTE_BUDGET, b"\x03\x01", [])])
def test_the_second_instruction_is_the_price(second):
    """Threat 24: without one in its place, the cap on the price would be compared with something else."""
    raw = sponsored(set_compute_unit_limit(20_000), second, transfer_checked())
    assert refused(check_standard(raw, RULES, 1)) == "transaction_instructions_compute_price_instruction"


def test_extra_instructions_are_refused():
    """Threat 24: other programs, a second transfer, too many or too few instructions."""
    moves = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=OTHER.pubkey(), lamports=1))
    assert "unknown_program" in refused(check_standard(sponsored(*standard(100_000, moves)), RULES, 1))
    second = transfer_checked(5)
    assert "unknown_program" in refused(check_standard(sponsored(*standard(100_000, second)), RULES, 1))
    assert "instructions_length" in refused(check_standard(sponsored(*standard(100_000, *[GUARD] * 4)), RULES, 1))
    assert "instructions_length" in refused(check_standard(sponsored(transfer_checked()), RULES, 1))


def test_mint_destination_and_program_are_ours():
    """Another token, another receiver, Token-2022, or an account that is not the associated one earns nothing."""
    frame = standard()[:2]
    mint = Pubkey.new_unique()
    assert refused(check_standard(sponsored(*frame, transfer_checked(mint=mint)), RULES, 1)) == "mint_mismatch"
    elsewhere = transfer_checked(destination=token_account(OTHER.pubkey()))
    assert refused(check_standard(sponsored(*frame, elsewhere), RULES, 1)) == "recipient_mismatch"
    itself = transfer_checked(source=token_account(DEPOSIT))
    assert refused(check_standard(sponsored(*frame, itself), RULES, 1)) == "recipient_mismatch"
    newer = transfer_checked(program=TOKEN_2022)
    assert refused(check_standard(sponsored(*frame, newer), RULES, 1)) == "no_transfer_instruction"
    assert refused(check_standard(sponsored(*frame, old_transfer()), RULES, 1)) == "no_transfer_instruction"


def test_the_payer_signed_this_message():
    """Signatures are checked here, before any node or store is asked."""
    message = message_of(standard())
    unsigned = bytes(VersionedTransaction.populate(message, [Signature.default(), Signature.default()]))
    assert refused(check_standard(unsigned, RULES, 1)) == "signature_invalid"
    other = PAYER.sign_message(to_bytes_versioned(message_of(standard(200_000))))
    raw = bytes(VersionedTransaction.populate(message, [Signature.default(), other]))
    assert refused(check_standard(raw, RULES, 1)) == "signature_invalid"


def test_only_our_fee_payer_and_one_other_sign():
    """Another fee payer, or a third signature."""
    raw = self_paid(*standard())
    assert refused(check_standard(raw, RULES, 1)) == "missing_fee_payer"
    assert refused(check_standard(sponsored(*standard()), SELF_PAID_ONLY, 1)) == "missing_fee_payer"
    third = Instruction(LIGHTHOUSE, b"\x00", [AccountMeta(OTHER.pubkey(), True, False)])
    message = message_of(standard(100_000, third))
    signatures = [Signature.default(), *(k.sign_message(to_bytes_versioned(message)) for k in (PAYER, OTHER))]
    assert refused(check_standard(bytes(VersionedTransaction.populate(message, signatures)), RULES, 1)) == (
        "transaction_signers"
    )


def unsigned_transfer() -> Instruction:
    """A transfer whose authority, another wallet, does not sign."""
    whole = transfer_checked(payer=OTHER.pubkey())
    accounts = [*whole.accounts[:3], AccountMeta(OTHER.pubkey(), False, False)]
    return Instruction(whole.program_id, bytes(whole.data), accounts)


def test_the_wallet_that_pays_is_the_one_that_signs():
    """Threat 24: a transfer without its wallet's signature fails on the chain, at the sponsor's cost."""
    signing = Instruction(MEMO, b"x", [AccountMeta(PAYER.pubkey(), True, False)])
    message = message_of([*standard()[:2], unsigned_transfer(), signing])
    assert message.header.num_required_signatures == 2
    assert refused(check_standard(half_signed(message), RULES, 1)) == "transaction_signers"
    message = message_of([unsigned_transfer(), signing])
    alone = MessageV0(message.header, message.account_keys, message.recent_blockhash, message.instructions[:1], [])
    assert refused(check_relayed(half_signed(alone), RULES)) == "transaction_signers"


def test_a_transaction_of_version_1_is_refused():
    """It names its fee in another place, which the caps on the fee do not read."""
    message = MessageV1.try_compile(SPONSOR.pubkey(), standard(), message_of([]).recent_blockhash)
    signatures = [Signature.default(), PAYER.sign_message(to_bytes_versioned(message))]
    raw = bytes(VersionedTransaction.populate(message, signatures))
    own = MessageV1.try_compile(PAYER.pubkey(), [transfer_checked()], message_of([]).recent_blockhash)
    for found in (check_standard(raw, RULES, 1), check_relayed(bytes(VersionedTransaction(own, [PAYER])), RULES)):
        assert refused(found) == "transaction_could_not_be_decoded"
        assert isinstance(found, Unfit) and "legacy or v0" in found.message


@pytest.mark.parametrize("made", [transfer_checked(), old_transfer()], ids=["checked", "old"])
def test_a_transfer_of_several_signers_is_none(made):
    """A multisig cannot sign in, so nobody could use its credits."""
    shared = Instruction(made.program_id, bytes(made.data), [*made.accounts, AccountMeta(PAYER.pubkey(), True, False)])
    assert refused(check_relayed(self_paid(shared), RULES)) == "no_transfer_instruction"


def test_identity_is_the_message_not_the_signatures():
    """Any bytes in the place of the sponsor's signature leave the identity of the payment unchanged."""
    message = message_of(standard())
    payer = PAYER.sign_message(to_bytes_versioned(message))
    first = check_standard(half_signed(message), RULES, 1)
    filled = bytes(VersionedTransaction.populate(message, [Signature.new_unique(), payer]))
    second = check_standard(filled, RULES, 1)
    assert isinstance(first, Payment) and isinstance(second, Payment)
    assert first.message_hash == second.message_hash
    signature = SPONSOR.sign_message(first.message)
    assert first.signed_by_sponsor(signature) == second.signed_by_sponsor(signature)
    assert all(first.signed_by_sponsor(signature).verify_with_results())


def test_relayed_and_sponsored_is_a_single_transfer_checked():
    """Interface, "Payment settlement": nothing else, compute budget included; a stock payment fails here."""
    found = check_relayed(sponsored(transfer_checked(10_000)), RULES)
    assert isinstance(found, Payment) and found.sponsored
    assert refused(check_relayed(sponsored(*standard()), RULES)) == "transaction_instructions_length"
    assert refused(check_relayed(sponsored(transfer_checked(), memo()), RULES)) == "transaction_instructions_length"
    assert refused(check_relayed(sponsored(old_transfer()), RULES)) == "no_transfer_instruction"
    assert refused(check_relayed(sponsored(transfer_checked(9_999)), RULES)) == "amount_insufficient"


def test_relayed_and_self_paid_may_hold_anything_around_its_transfer():
    """Compute budget, memo, guards and transfers of other things; legacy or v0; either kind of transfer."""
    moves = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=OTHER.pubkey(), lamports=1))
    for instruction in (transfer_checked(10_000), old_transfer(10_000)):
        raw = self_paid(set_compute_unit_price(10**9), moves, instruction, memo())
        found = check_relayed(raw, RULES)
        assert isinstance(found, Payment), found
        assert (found.sponsored, found.amount_base_units, found.payer) == (False, 10_000, PAYER.pubkey())
    legacy = Message.new_with_blockhash([transfer_checked()], PAYER.pubkey(), message_of([]).recent_blockhash)
    assert isinstance(check_relayed(bytes(VersionedTransaction(legacy, [PAYER])), SELF_PAID_ONLY), Payment)


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        (memo(), "no_transfer_instruction"),
        (transfer_checked(9_999), "amount_insufficient"),
        (transfer_checked(destination=token_account(OTHER.pubkey())), "recipient_mismatch"),
        (transfer_checked(destination=DEPOSIT), "recipient_mismatch"),  # The wallet is not its token account.
        (transfer_checked(mint=Pubkey.new_unique()), "mint_mismatch"),
        (transfer_checked(program=TOKEN_2022), "mint_mismatch"),
    ],
)
def test_relayed_and_self_paid_refusals(instruction, reason):
    """Interface: wrong destination or mint, amount below minimum, no payment instruction."""
    assert refused(check_relayed(self_paid(instruction), RULES)) == reason


def test_self_paid_must_be_wholly_signed():
    """The transaction is sent unchanged."""
    message = message_of([transfer_checked()], PAYER.pubkey())
    raw = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    assert refused(check_relayed(raw, RULES)) == "signature_invalid"


def test_an_index_out_of_range_is_a_refusal():
    """A value and not an exception, because clients choose these bytes."""
    message = message_of(standard())
    instructions = list(message.instructions)
    broken = type(instructions[2])(instructions[2].program_id_index, bytes(instructions[2].data), b"\xc8\x01\x02\x03")
    instructions[2] = broken
    wrong = MessageV0(message.header, message.account_keys, message.recent_blockhash, instructions, [])
    assert refused(check_standard(half_signed(wrong), RULES, 1)) == "transaction_could_not_be_decoded"


@given(cut=st.integers(0, 600), noise=st.binary(max_size=40))
def test_damaged_bytes_are_refused_never_raised(cut, noise):
    """For any bytes the answer is a value."""
    raw = sponsored(*standard())
    damaged = raw[:cut] + noise + raw[cut + len(noise) + 1 :]
    for found in (check_standard(damaged, RULES, 1), check_relayed(damaged, RULES)):
        assert isinstance(found, Unfit) or damaged[65:] == raw[65:]


@given(index=st.integers(1 + 64, 495), bit=st.integers(0, 7))
def test_no_flipped_bit_of_the_message_is_signed(index, bit):
    """The payer's signature binds every byte after the sponsor's place."""
    raw = bytearray(sponsored(*standard()))
    if index < len(raw):
        raw[index] ^= 1 << bit
        assert isinstance(check_standard(bytes(raw), RULES, 1), Unfit)


def test_the_mint_of_the_older_transfer_is_told_by_the_destination():
    """The associated account belongs to one mint: no other token can be moved into it."""
    assert token_account(DEPOSIT, MINT) == RULES.deposit_account
