"""simulateBundle, which jito-solana adds to a node's JSON-RPC methods.

Implements: its parameters (encodedTransactions, accounts before and after each transaction, simulationBank), limits
and refusals. Transactions run one after the other, each on the changes of the ones before, up to the first failure.
All changes are undone. Not here: sending bundles (block_engine/).
"""

from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.chain.chain import Chain
from devnode.chain.simulation import Rehearsal, Simulation, not_run, refused, rehearsed, rehearsing, with_blockhash
from devnode.encoding.accounts import ui_account
from devnode.encoding.addresses import SYSTEM_PROGRAM
from devnode.encoding.transaction_errors import error_text
from devnode.encoding.wire import Decoded
from devnode.execution.execution import durable_nonce_account
from devnode.records.blockhashes import RecentBlockhash, stored_value
from devnode.records.commitment import Commitment, Sealed
from devnode.rpc import params as read
from devnode.rpc.blocks import blockhash_json
from devnode.rpc.errors import RpcError, invalid_params
from devnode.rpc.node import Node, in_context
from devnode.rpc.params import Params
from devnode.rpc.sending import decoded_transaction, simulation_json

TRANSACTIONS_MAX = 20
ACCOUNTS_MAX = 128  # The limit of account locks in one transaction.
_STRUCT = "struct RpcSimulateBundleConfig"
_NO_ACCOUNT = Account(0, b"", SYSTEM_PROGRAM, False, 0)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The accounts that one call wants to see before and after each transaction."""

    before: list[tuple[Pubkey, ...]]
    after: list[tuple[Pubkey, ...]]


def simulate_bundle(node: Node, params: Params) -> Any:
    texts = _encoded_transactions(read.at(params, 0))
    if len(texts) > TRANSACTIONS_MAX:
        raise invalid_params(f"bundle size too large, max {TRANSACTIONS_MAX} transactions")
    config = read.at(params, 1)
    wanted = _wanted(config, len(texts))
    config = read.config(params, 1, "RpcSimulateBundleConfig")
    transactions = [decoded_transaction(text, {"encoding": "base64"}) for text in texts]
    _refuse_duplicates(transactions)
    bank = _bank(node.chain, config.get("simulationBank"))
    skip_verify = read.boolean(config, "skipSigVerify")
    replacement = None
    if read.boolean(config, "replaceRecentBlockhash"):
        if not skip_verify:
            raise invalid_params("replace_recent_blockhash cannot be used with !skip_sig_verify")
        replacement = node.chain.blockhashes.latest_at(bank.slot)
        transactions = [with_blockhash(one, replacement.blockhash) for one in transactions]
    if not skip_verify and not all(all(one.transaction.verify_with_results()) for one in transactions):
        raise invalid_params(f"transaction signature is invalid: {error_text('SignatureFailure')}")
    with rehearsing(node.chain, bank.slot) as rehearsal:
        return in_context(bank.slot, _run(node.chain, rehearsal, transactions, wanted, bank, replacement))


def _encoded_transactions(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        raise read.wrong_type(value, "struct RpcBundleRequest")
    if "encodedTransactions" not in value:
        raise _missing("encodedTransactions")
    texts = read.listed(value["encodedTransactions"])
    return [read.text(texts, index) for index in range(len(texts))]


def _wanted(config: Any, count: int) -> _Wanted:
    """Read both lists of wanted accounts. A configuration must have both, with an entry or null per transaction."""
    if config is None:
        return _Wanted([()] * count, [()] * count)
    if not isinstance(config, dict):
        raise read.wrong_type(config, _STRUCT)
    lists = []
    for name in ("preExecutionAccountsConfigs", "postExecutionAccountsConfigs"):
        if name not in config:
            raise _missing(name)
        lists.append(read.listed(config[name]))
    before, after = lists
    if not len(before) == len(after) == count:
        text = "pre/post_execution_accounts_configs must be equal in length to the number of transactions"
        raise invalid_params(text)
    if config.get("transactionEncoding") not in (None, "base64"):
        raise invalid_params("Base64 is the only supported encoding for transactions")
    return _Wanted(
        [_addresses(one, "pre-execution") for one in before], [_addresses(one, "post-execution") for one in after]
    )


def _addresses(value: Any, when: str) -> tuple[Pubkey, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise read.wrong_type(value, "struct RpcSimulateTransactionAccountsConfig")
    if value.get("encoding") not in (None, "base64"):
        raise invalid_params(f"Base64 is the only supported encoding for {when} accounts")
    if "addresses" not in value:
        raise _missing("addresses")
    addresses = read.listed(value["addresses"])
    if len(addresses) > ACCOUNTS_MAX:
        raise invalid_params(f"Too many accounts provided; max {ACCOUNTS_MAX}")
    return tuple(map(read.pubkey_of, addresses))


def _refuse_duplicates(transactions: list[Decoded]) -> None:
    """Refuse two equal messages; their signatures may differ."""
    if len({bytes(one.message) for one in transactions}) < len(transactions):
        raise invalid_params("duplicate transactions")


def _bank(chain: Chain, value: Any) -> Sealed:
    """Select the bank by commitment (default: confirmed), by slot, or the newest one ("tip")."""
    if value is None:
        return chain.levels.at(Commitment.CONFIRMED)
    if value == "tip":
        return chain.levels.at(Commitment.PROCESSED)
    if isinstance(value, dict) and isinstance(value.get("commitment"), dict):
        return chain.levels.at(read.commitment(value["commitment"]))
    if isinstance(value, dict) and "slot" in value:
        return _bank_at(chain, read.unsigned(value["slot"]))
    if isinstance(value, str):
        read.variant(value, ("commitment", "slot", "tip"))
    raise read.wrong_type(value, "enum SimulationSlotConfig")


def _bank_at(chain: Chain, slot: int) -> Sealed:
    """The bank of a slot. As on a node, banks below the root are gone."""
    building = chain.levels.at(Commitment.PROCESSED)
    if slot == building.slot:
        return building
    if chain.levels.at(Commitment.FINALIZED).slot <= slot < building.slot:
        for entry in chain.blockhashes.entries():
            if entry.slot == slot:
                return Sealed(slot, entry.height)
    raise invalid_params(f"bank not found for the provided slot: {slot}")


def _run(
    chain: Chain,
    rehearsal: Rehearsal,
    transactions: list[Decoded],
    wanted: _Wanted,
    bank: Sealed,
    replacement: RecentBlockhash | None,
) -> dict[str, Any]:
    results = []
    summary: Any = "succeeded"
    for decoded, before, after in zip(transactions, wanted.before, wanted.after, strict=True):
        shown_before = [_shown(pubkey, rehearsal) for pubkey in before]
        reason = None if replacement is not None else _refusal(chain, rehearsal, decoded, bank)
        if reason is None:
            done = rehearsed(rehearsal, decoded, verify_signatures=False)
        else:
            done = not_run(rehearsal, decoded, refused(reason))
        shown_after = [_shown(pubkey, rehearsal) for pubkey in after]
        results.append(_result(done, shown_before, shown_after, replacement))
        if done.err is not None:
            signature = str(decoded.signature)
            failure = {"TransactionFailure": [list(bytes(decoded.signature)), error_text(done.err)]}
            summary = {"failed": {"error": failure, "tx_signature": signature}}
            break  # Later transactions do not run and have no result.
    return {"summary": summary, "transactionResults": results}


def _refusal(chain: Chain, rehearsal: Rehearsal, decoded: Decoded, bank: Sealed) -> str | None:
    landed = chain.statuses.get(decoded.signature)
    if landed is not None and landed.slot <= bank.slot:
        return "AlreadyProcessed"
    if chain.blockhashes.is_usable(decoded.blockhash, bank.slot, bank.height):
        return None
    nonce_account = durable_nonce_account(decoded)
    if nonce_account is not None and stored_value(rehearsal.read(nonce_account)) == decoded.blockhash:
        return None
    return "BlockhashNotFound"


def _shown(pubkey: Pubkey, rehearsal: Rehearsal) -> dict[str, Any]:
    """The JSON of an account; as in jito-solana, an absent account is shown as an empty one."""
    account = rehearsal.read(pubkey)
    shown = ui_account(pubkey, account if account is not None else _NO_ACCOUNT, "base64", None, lambda *_: None)
    return shown if account is not None else shown | {"rentEpoch": 0}


def _result(
    done: Simulation, before: list[Any], after: list[Any], replacement: RecentBlockhash | None
) -> dict[str, Any]:
    return simulation_json(done) | {
        "preExecutionAccounts": before,
        "postExecutionAccounts": after,
        "replacementBlockhash": None if replacement is None else blockhash_json(replacement),
    }


def _missing(field: str) -> RpcError:
    return invalid_params(f"Invalid params: missing field `{field}`.")
