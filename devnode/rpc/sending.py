"""JSON-RPC methods that send or simulate a transaction.

Implements: sendTransaction with preflight, simulateTransaction, requestAirdrop, getFeeForMessage.
A bad signature is error -32002 with SignatureFailure, as on nodes since Agave 3.1. With skipPreflight, a transaction
that cannot land is dropped without an error, as on its way to a leader. `maxRetries` limits the node's own re-sends.
"""

import base64
import binascii
from typing import Any

import base58
from solders.message import from_bytes_versioned
from solders.transaction import VersionedTransaction

from devnode.chain.faucet import AIRDROP_LAMPORTS_MAX, NO_SIGNATURE, FaucetError
from devnode.chain.intake import UNTIL_EXPIRY
from devnode.chain.simulation import Simulation, preflight, sees_the_present, simulate, with_blockhash
from devnode.chain.submissions import Source, SubmitResult, Unsound
from devnode.encoding.transaction_errors import error_text
from devnode.encoding.wire import PACKET_BYTES_MAX, PACKET_BYTES_MAX_V1, Decoded, Malformed, decode
from devnode.execution.execution import Refused
from devnode.execution.fees import compute_budget
from devnode.execution.vm import Outcome
from devnode.parsing.transactions import inner_instructions_json, return_data_json, token_balances_json
from devnode.records.commitment import Commitment
from devnode.rpc import params as read
from devnode.rpc.accounts import AccountView
from devnode.rpc.blocks import blockhash_json
from devnode.rpc.dispatch import Unfinished
from devnode.rpc.errors import internal_error, invalid_params, min_context_slot_not_reached, preflight_failure
from devnode.rpc.node import Node, in_context
from devnode.rpc.params import Params

TRANSACTION_TYPE = "solana_transaction::versioned::VersionedTransaction"
BASE58_CHARACTERS_MAX = 1_683  # Longest base58 text of 1,232 bytes.
BASE64_CHARACTERS_MAX = 1_644
BASE64_CHARACTERS_MAX_V1 = 5_464
_V1_BASE64_START = "gQ"  # The first byte is 0x81.
_ENCODINGS = ("base58", "base64")


def send_transaction(node: Node, params: Params) -> Unfinished[str]:
    config = read.config(params, 1, "RpcSendTransactionConfig")
    decoded = decoded_transaction(read.text(params, 0), config)
    skip = read.boolean(config, "skipPreflight")
    retries = read.optional_unsigned(config.get("maxRetries"))
    resends = UNTIL_EXPIRY if retries is None else retries
    level = Commitment.PROCESSED if skip else read.commitment(config, "preflightCommitment")
    _check_min_slot(node, level, config)
    if not skip:
        node.health.check()

    def finish(is_signed: bool) -> str:
        if skip:
            node.intake.submit(decoded, Source.RPC, signatures_checked=is_signed, resends=resends)
        else:
            _send_if_sound(node, decoded, level, is_signed, resends)
        return str(decoded.signature)

    return Unfinished(decoded.raw, finish)


def _send_if_sound(node: Node, decoded: Decoded, level: Commitment, is_signed: bool, resends: int) -> None:
    """Run preflight, then land the transaction; in one run where both see the same accounts."""
    chain = node.chain
    result: SubmitResult | Unsound
    if sees_the_present(chain, decoded, level) and node.intake.is_direct:
        result = node.intake.submit_if_sound(decoded, is_signed)
    else:
        failure = preflight(chain, decoded, level, is_signed)
        if failure is not None:
            raise _preflight_failure(failure)
        result = node.intake.submit(decoded, Source.RPC, True, resends=resends, refusal_is_final=True)
    if isinstance(result, Unsound):
        done = result.meta
        raise _preflight_failure(
            Outcome(True, done.err, 0, done.compute_units, done.logs, done.inner, done.return_data)
        )
    if isinstance(result, Refused):
        raise _preflight_failure(Outcome(False, result.err, 0, 0, result.logs, (), None))


def simulate_transaction(node: Node, params: Params) -> Any:
    config = read.config(params, 1, "RpcSimulateTransactionConfig")
    decoded = decoded_transaction(read.text(params, 0), config)
    verify = read.boolean(config, "sigVerify")
    replace = read.boolean(config, "replaceRecentBlockhash")
    if verify and replace:
        raise invalid_params("sigVerify may not be used with replaceRecentBlockhash")
    level, slot = node.bank(config)
    replacement = None
    if replace:
        entry = node.chain.blockhashes.latest_at(slot)
        replacement = blockhash_json(entry)
        decoded = with_blockhash(decoded, entry.blockhash)
    wanted = config.get("accounts")
    if wanted is not None and not isinstance(wanted, dict):
        raise read.wrong_type(wanted, "struct RpcSimulateTransactionAccountsConfig")
    done = simulate(node.chain, decoded, level, verify, fresh=replace)
    value = simulation_json(done) | {"innerInstructions": None}
    if read.boolean(config, "innerInstructions"):
        keys = tuple(map(str, done.keys.all))
        value["innerInstructions"] = inner_instructions_json(done.outcome.inner, keys, "jsonParsed")
    value["accounts"] = None if wanted is None else _requested_accounts(node, level, wanted, done)
    if replacement is not None:
        value["replacementBlockhash"] = replacement
    return in_context(slot, value)


def request_airdrop(node: Node, params: Params) -> Any:
    pubkey = read.pubkey(params, 0)
    lamports = read.unsigned(read.at(params, 1))
    read.commitment(read.config(params, 2, "RpcRequestAirdropConfig"))
    if lamports > AIRDROP_LAMPORTS_MAX:
        raise invalid_params(f"Invalid param: at most {AIRDROP_LAMPORTS_MAX} lamports in one airdrop")
    try:
        return node.faucet.airdrop(pubkey, lamports)
    except FaucetError as error:
        raise internal_error(str(error)) from None


def get_fee_for_message(node: Node, params: Params) -> Any:
    """The fee; null if the message's blockhash is unknown at the commitment, as on a node."""
    text = read.text(params, 0)
    level, slot = node.bank(read.config(params, 1, "RpcContextConfig"))
    raw = _raw(text, "base64", "solana_message::versions::VersionedMessage")
    try:
        message = from_bytes_versioned(raw)
    except ValueError as error:
        raise invalid_params(f"failed to deserialize solana_message::versions::VersionedMessage: {error}") from None
    unsigned = VersionedTransaction.populate(message, [])
    decoded = Decoded(raw, unsigned, message, NO_SIGNATURE, tuple(message.account_keys), message.recent_blockhash, None)
    if any(instruction.program_id_index >= len(decoded.keys) for instruction in message.instructions):
        raise invalid_params("invalid transaction message: index out of bounds")
    if not node.chain.is_fresh(decoded, level):
        return in_context(slot, None)
    return in_context(slot, compute_budget(decoded).fee_lamports)


def decoded_transaction(text: str, config: dict[str, Any]) -> Decoded:
    encoding = config.get("encoding")
    if encoding in (None, "binary"):  # "binary" is an older name of base58.
        encoding = "base58"
    elif encoding not in _ENCODINGS:
        raise invalid_params(f"unsupported encoding: {encoding}. Supported encodings: base58, base64")
    decoded = decode(_raw(text, encoding, TRANSACTION_TYPE))
    if isinstance(decoded, Malformed):
        raise invalid_params(decoded.text)
    return decoded


def _raw(text: str, encoding: str, what: str) -> bytes:
    if encoding == "base58":
        if len(text) > BASE58_CHARACTERS_MAX:
            raise _too_large(text, encoding, what, BASE58_CHARACTERS_MAX, PACKET_BYTES_MAX)
        try:
            return bytes(base58.b58decode(text))
        except ValueError as error:
            raise invalid_params(f"invalid base58 encoding: {error}") from None
    v1 = text.startswith(_V1_BASE64_START)
    limit = BASE64_CHARACTERS_MAX_V1 if v1 else BASE64_CHARACTERS_MAX
    if len(text) > limit:
        raise _too_large(text, encoding, what, limit, PACKET_BYTES_MAX_V1 if v1 else PACKET_BYTES_MAX)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_params(f"invalid base64 encoding: {error}") from None


def _too_large(text: str, encoding: str, what: str, characters: int, size: int) -> Exception:
    return invalid_params(
        f"{encoding} encoded {what} too large: {len(text)} bytes (max: encoded/raw {characters}/{size})"
    )


def _check_min_slot(node: Node, level: Commitment, config: dict[str, Any]) -> None:
    least = read.optional_unsigned(config.get("minContextSlot"))
    slot = node.chain.levels.at(level).slot
    if least is not None and slot < least:
        raise min_context_slot_not_reached(slot)


def _preflight_failure(outcome: Outcome) -> Exception:
    result = {
        "accounts": None,
        "err": outcome.err,
        "innerInstructions": None,
        "loadedAccountsDataSize": 0,
        "logs": list(outcome.logs),
        "replacementBlockhash": None,
        "returnData": return_data_json(outcome.return_data),
        "unitsConsumed": outcome.compute_units,
    }
    return preflight_failure(error_text(outcome.err), result)


def simulation_json(done: Simulation) -> dict[str, Any]:
    """What the results of simulateTransaction and of simulateBundle have in common."""
    outcome, keys = done.outcome, done.keys
    return {
        "err": done.err,
        "fee": done.fee_lamports if outcome.landed else None,
        "loadedAccountsDataSize": done.loaded_data_bytes,
        "loadedAddresses": {
            "readonly": list(map(str, keys.loaded_readonly)),
            "writable": list(map(str, keys.loaded_writable)),
        },
        "logs": list(outcome.logs),
        "postBalances": [0 if account is None else account.lamports for account in done.after],
        "postTokenBalances": token_balances_json(done.post_tokens),
        "preBalances": [0 if account is None else account.lamports for account in done.before],
        "preTokenBalances": token_balances_json(done.pre_tokens),
        "replacementBlockhash": None,
        "returnData": return_data_json(outcome.return_data),
        "unitsConsumed": outcome.compute_units,
    }


def _requested_accounts(node: Node, level: Commitment, wanted: dict[str, Any], done: Simulation) -> list[Any]:
    addresses = read.listed(wanted.get("addresses"))
    if wanted.get("encoding") in ("binary", "base58"):
        raise invalid_params("base58 encoding not supported")
    if len(addresses) > len(done.keys.all):
        raise invalid_params(f"Too many accounts provided; max {len(done.keys.all)}")
    shown = AccountView(node, level, wanted, "base64")
    pubkeys = [read.pubkey_of(address) for address in addresses]
    if done.err is not None:
        return [None] * len(pubkeys)
    after = dict(zip(done.keys.all, done.after, strict=True))
    return [
        shown.of(pubkey, after[pubkey] if pubkey in after else node.chain.account(pubkey, level)) for pubkey in pubkeys
    ]
