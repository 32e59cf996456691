"""The rules for x402 payments: which transactions are payments to this service, and which may be co-signed.

Implements: x402 scheme `exact` on SVM as the official clients build it (the standard path); interface, "Payment
settlement" (the relay path, self-paid and sponsored); threat 24.
Pure: takes bytes and returns a payment, or the reason why it is none. The simulation tells whether it would succeed.

The sponsor's key signs a whole message, so the rules cover the whole message: the sponsor pays the fee and occurs
nowhere else, lookup tables hide no account, only payer and sponsor sign, and the fee has an upper limit. The reference
facilitators are less strict: they check only the authority of the transfer.

A payment that fails on the chain costs the sponsor its fee. So the payer may add no condition that can become false by
itself or at no cost. Guards that wallets add (Lighthouse) may read only the payer's wallet and the token account it
pays from, which change by a transaction of the payer. A guard on the clock, on a mint or on another account could pass
in the simulation and fail on the chain at no cost to the payer.
"""

import hashlib
from dataclasses import dataclass

from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from actors import addresses

COMPUTE_BUDGET = Pubkey.from_string(addresses.COMPUTE_BUDGET_PROGRAM)
TOKEN = Pubkey.from_string(addresses.TOKEN_PROGRAM)
TOKEN_2022 = Pubkey.from_string(addresses.TOKEN_2022_PROGRAM)
LIGHTHOUSE = Pubkey.from_string("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")  # Wallets add its guards by themselves.
MEMOS = frozenset(
    map(
        Pubkey.from_string,
        (addresses.MEMO_PROGRAM, "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"),
    )
)
_UNIT_LIMIT, _UNIT_PRICE = 2, 3  # First bytes of compute-budget instructions.
_TRANSFER, _TRANSFER_CHECKED = 3, 12  # First bytes of token instructions.
# First bytes of Lighthouse instructions that compare one account with expected values: its data, its head, or its
# fields as a token account; each for one comparison and for several. Other instructions read the clock, compare two
# accounts, or write.
_GUARDS = frozenset((b"\x02", b"\x03", b"\x05", b"\x06", b"\x09", b"\x0a"))
_INSTRUCTIONS_MIN, _INSTRUCTIONS_MAX = 3, 7
_PREFIX = "invalid_exact_svm_payload_"


@dataclass(frozen=True, slots=True)
class Rules:
    """The conditions of a payment. sponsor None: nothing is co-signed, so only self-paid transactions are relayed."""

    deposit_wallet: Pubkey
    mint: Pubkey
    sponsor: Pubkey | None
    minimum_base_units: int
    unit_price_max: int  # Micro-lamports for a compute unit.
    unit_limit_max: int  # Compute units of one payment.

    @property
    def deposit_account(self) -> Pubkey:
        return get_associated_token_address(self.deposit_wallet, self.mint)


@dataclass(frozen=True, slots=True)
class Payment:
    """One transfer to the deposit account. message_hash identifies it: signatures can be replaced, the message cannot.

    sponsored: the sponsor's signature is missing, and every other one is present and valid.
    """

    transaction: VersionedTransaction
    message: bytes
    message_hash: bytes
    payer: Pubkey  # The authority of the transfer, whose account gets the credits.
    source: Pubkey  # The token account that the money leaves.
    amount_base_units: int
    sponsored: bool

    def signed_by_sponsor(self, signature: Signature) -> VersionedTransaction:
        assert self.sponsored, self.payer
        others = self.transaction.signatures[1:]
        return VersionedTransaction.populate(self.transaction.message, [signature, *others])


@dataclass(frozen=True, slots=True)
class Unfit:
    """reason: the word of the x402 SDKs where they have one."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Transfer:
    source: Pubkey
    mint: Pubkey | None  # Not named by the older Transfer.
    destination: Pubkey
    authority: Pubkey
    amount: int


def check_standard(raw: bytes, rules: Rules, least_base_units: int) -> Payment | Unfit:
    """Check a stock client's payment:

    compute limit, compute price, TransferChecked, then guards and memos; sponsored.
    """
    decoded = _decode(raw)
    if isinstance(decoded, Unfit):
        return decoded
    keys, instructions = decoded.message.account_keys, decoded.message.instructions
    unfit = _check_sponsorship(decoded, rules)
    if unfit is not None:
        return unfit
    if not _INSTRUCTIONS_MIN <= len(instructions) <= _INSTRUCTIONS_MAX:
        return _unfit("transaction_instructions_length", f"{len(instructions)} instructions, wanted 3 to 7")
    unfit = _check_compute_budget(keys, instructions, rules)
    if unfit is not None:
        return unfit
    payment = _checked_payment(decoded, keys, instructions[2], rules, max(least_base_units, rules.minimum_base_units))
    if isinstance(payment, Unfit):
        return payment
    return _check_additions(keys, instructions[3:], payment) or payment


def check_relayed(raw: bytes, rules: Rules) -> Payment | Unfit:
    """Check a payment to POST /x402/settle: sponsored when its fee payer is the sponsor, self-paid otherwise."""
    decoded = _decode(raw)
    if isinstance(decoded, Unfit):
        return decoded
    if rules.sponsor is not None and decoded.message.account_keys[0] == rules.sponsor:
        return _check_bare(decoded, rules)
    if not all(decoded.verify_with_results()):
        return _unfit("signature_invalid", "a signature is missing or does not fit the message")
    return _find_transfer(decoded, rules)


def _check_bare(decoded: VersionedTransaction, rules: Rules) -> Payment | Unfit:
    """Check a sponsored transaction of the relay path: one TransferChecked, and nothing that could raise the fee."""
    keys, instructions = decoded.message.account_keys, decoded.message.instructions
    unfit = _check_sponsorship(decoded, rules)
    if unfit is not None:
        return unfit
    if len(instructions) != 1:
        return _unfit(
            "transaction_instructions_length",
            f"a sponsored transaction must hold a single transferChecked instruction and nothing else, not even a "
            f"compute budget; this one holds {len(instructions)} instructions",
        )
    return _checked_payment(decoded, keys, instructions[0], rules, rules.minimum_base_units)


def _decode(raw: bytes) -> VersionedTransaction | Unfit:
    """Decode a complete transaction of a known version, without lookup tables, and with valid indexes."""
    try:
        decoded = VersionedTransaction.from_bytes(raw)
        whole = bytes(decoded) == raw
    except ValueError:
        whole = False
    if not whole:
        return _unfit("transaction_could_not_be_decoded", "the bytes are not one transaction")
    message = decoded.message
    if not isinstance(message, Message | MessageV0):
        return _unfit("transaction_could_not_be_decoded", "payments are legacy or v0 transactions")
    if isinstance(message, MessageV0) and message.address_table_lookups:
        return _unfit(
            "transaction_lookup_tables", "address lookup tables hide accounts; list every account in the transaction"
        )
    try:
        decoded.sanitize()
    except Exception as error:  # noqa: BLE001 - its exception type is not exported; any is a refusal.
        return _unfit("transaction_could_not_be_decoded", f"the transaction is not sane: {str(error)[:100]}")
    return decoded


def _check_sponsorship(decoded: VersionedTransaction, rules: Rules) -> Unfit | None:
    """Check that the sponsor pays the fee, signs with one other, who has signed, and is in no instruction."""
    message = decoded.message
    keys = message.account_keys
    if rules.sponsor is None or keys[0] != rules.sponsor:
        return _unfit("missing_fee_payer", "the fee payer must be the one that the payment terms name")
    if message.header.num_required_signatures != 2:
        return _unfit("transaction_signers", "the payer and the fee payer sign, and nobody else")
    if keys.count(rules.sponsor) != 1:
        return _unfit("missing_fee_payer", "the fee payer is listed twice")
    for instruction in message.instructions:
        if instruction.program_id_index == 0 or 0 in bytes(instruction.accounts):
            return _unfit(
                "transaction_fee_payer_transferring_funds", "the fee payer may not occur in an instruction's accounts"
            )
    if not decoded.signatures[1].verify(keys[1], to_bytes_versioned(message)):
        return _unfit("signature_invalid", "the payer's signature is missing or does not fit the message")
    return None


def _check_compute_budget(keys: list[Pubkey], instructions: list[CompiledInstruction], rules: Rules) -> Unfit | None:
    limit, price = instructions[0], instructions[1]
    data = bytes(limit.data)
    if keys[limit.program_id_index] != COMPUTE_BUDGET or len(data) != 5 or data[0] != _UNIT_LIMIT:
        return _unfit("transaction_instructions_compute_limit_instruction", "first must be a SetComputeUnitLimit")
    if int.from_bytes(data[1:], "little") > rules.unit_limit_max:
        return _unfit(
            "transaction_instructions_compute_limit_instruction_too_high",
            f"at most {rules.unit_limit_max} compute units are paid for",
        )
    data = bytes(price.data)
    if keys[price.program_id_index] != COMPUTE_BUDGET or len(data) != 9 or data[0] != _UNIT_PRICE:
        return _unfit("transaction_instructions_compute_price_instruction", "second must be a SetComputeUnitPrice")
    if int.from_bytes(data[1:], "little") > rules.unit_price_max:
        return _unfit(
            "transaction_instructions_compute_price_instruction_too_high",
            f"at most {rules.unit_price_max} micro-lamports for a compute unit are paid",
        )
    return None


def _check_additions(keys: list[Pubkey], added: list[CompiledInstruction], payment: Payment) -> Unfit | None:
    """Check the instructions after the transfer: memos, and guards that read only the payer's own accounts."""
    for instruction in added:
        program = keys[instruction.program_id_index]
        if program in MEMOS:
            continue
        if program != LIGHTHOUSE:
            return _unfit("transaction_instructions_unknown_program", f"program {program} has no place in a payment")
        read = [keys[index] for index in bytes(instruction.accounts)]
        if bytes(instruction.data)[:1] not in _GUARDS or not read or set(read) - {payment.payer, payment.source}:
            return _unfit(
                "transaction_instructions_guard",
                "a Lighthouse guard may compare the payer's wallet or the token account it pays from, nothing else",
            )
    return None


def _checked_payment(
    decoded: VersionedTransaction,
    keys: list[Pubkey],
    instruction: CompiledInstruction,
    rules: Rules,
    least_base_units: int,
) -> Payment | Unfit:
    """Return the one TransferChecked of a sponsored payment, whose authority is the second signer."""
    transfer = _read_transfer(keys, instruction)
    if transfer is None or transfer.mint is None:
        return _unfit("no_transfer_instruction", "wanted a TransferChecked of the SPL token program here")
    unfit = _check_transfer(transfer, rules, least_base_units)
    if unfit is not None:
        return unfit
    if transfer.authority != keys[1]:
        return _unfit("transaction_signers", "the transfer's authority must be the payer who signs")
    return _payment(decoded, transfer, sponsored=True)


def _find_transfer(decoded: VersionedTransaction, rules: Rules) -> Payment | Unfit:
    """Return the first transfer of a self-paid transaction that is a payment; else the fault of the closest one."""
    keys = decoded.message.account_keys
    worst: Unfit | None = None
    for instruction in decoded.message.instructions:
        transfer = _read_transfer(keys, instruction)
        if transfer is None:
            continue
        unfit = _check_transfer(transfer, rules, rules.minimum_base_units)
        if unfit is None:
            return _payment(decoded, transfer, sponsored=False)
        if worst is None or transfer.destination == rules.deposit_account:
            worst = unfit
    if worst is not None:
        return worst
    if any(keys[instruction.program_id_index] == TOKEN_2022 for instruction in decoded.message.instructions):
        return _unfit("mint_mismatch", f"only mint {rules.mint} of the SPL token program is taken")
    return _unfit("no_transfer_instruction", "no payment instruction: no Transfer or TransferChecked was found")


def _read_transfer(keys: list[Pubkey], instruction: CompiledInstruction) -> _Transfer | None:
    """Read a transfer of one signer, or return None. A multisig authority has further accounts and is not read."""
    if keys[instruction.program_id_index] != TOKEN:
        return None
    data, accounts = bytes(instruction.data), [keys[index] for index in bytes(instruction.accounts)]
    if len(data) == 9 and data[0] == _TRANSFER and len(accounts) == 3:
        source, destination, authority = accounts
        return _Transfer(source, None, destination, authority, int.from_bytes(data[1:9], "little"))
    if len(data) == 10 and data[0] == _TRANSFER_CHECKED and len(accounts) == 4:
        source, mint, destination, authority = accounts
        return _Transfer(source, mint, destination, authority, int.from_bytes(data[1:9], "little"))
    return None


def _check_transfer(transfer: _Transfer, rules: Rules, least_base_units: int) -> Unfit | None:
    if transfer.mint is not None and transfer.mint != rules.mint:
        return _unfit("mint_mismatch", f"wrong mint: {transfer.mint}, wanted {rules.mint}")
    if transfer.destination != rules.deposit_account:
        return _unfit(
            "recipient_mismatch",
            f"wrong destination: {transfer.destination}, wanted {rules.deposit_account}, the token account of "
            f"{rules.deposit_wallet} for mint {rules.mint}",
        )
    if transfer.source == transfer.destination:
        return _unfit("recipient_mismatch", "wrong destination: the transfer goes from an account to itself")
    if transfer.amount < least_base_units:
        return _unfit(
            "amount_insufficient", f"{transfer.amount} base units, wanted at least {least_base_units} base units"
        )
    return None


def _payment(decoded: VersionedTransaction, transfer: _Transfer, sponsored: bool) -> Payment:
    message = to_bytes_versioned(decoded.message)
    digest = hashlib.sha256(message).digest()
    return Payment(decoded, message, digest, transfer.authority, transfer.source, transfer.amount, sponsored)


def _unfit(reason: str, message: str) -> Unfit:
    return Unfit(_PREFIX + reason, message)
