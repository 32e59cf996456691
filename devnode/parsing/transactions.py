"""RPC's JSON of transactions and their results.

Implements: encodings json, jsonParsed, base58, base64 and binary, the `accounts` detail of getBlock, the status
meta, and the version rule (maxSupportedTransactionVersion). Pure.
"""

import base64
from collections.abc import Sequence
from typing import Any

import base58
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.encoding.accounts import ui_token_amount
from devnode.encoding.wire import AnyMessage, writable_indexes
from devnode.parsing.instructions import ui_instruction
from devnode.records.records import (
    BlockHeader,
    InnerInstructions,
    ReturnData,
    Reward,
    TokenBalance,
    TransactionMeta,
    TransactionRecord,
)

ENCODINGS = ("binary", "base64", "base58", "json", "jsonParsed")
DETAILS = ("full", "signatures", "none", "accounts")
OUTER_STACK_HEIGHT = 1


class UnsupportedVersion(Exception):
    """The version is above the caller's maxSupportedTransactionVersion."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def version_json(transaction: VersionedTransaction, max_version: int | None) -> dict[str, Any]:
    """The `version` field; empty if the caller gave no maximum, which means legacy only. Raises UnsupportedVersion."""
    version = transaction.version()
    if not isinstance(version, int):
        return {} if max_version is None else {"version": "legacy"}
    if max_version is None or version > max_version:
        raise UnsupportedVersion(version)
    return {"version": version}


def transaction_json(shown: TransactionRecord, encoding: str, max_version: int | None) -> dict[str, Any]:
    """The fields transaction, meta and version. Raises UnsupportedVersion."""
    transaction = shown.transaction()
    version = version_json(transaction, max_version)
    body = {"meta": meta_json(shown.meta, shown.keys, encoding), "transaction": _encoded(shown, transaction, encoding)}
    return body | version


def transaction_accounts_json(shown: TransactionRecord, max_version: int | None) -> dict[str, Any]:
    """The short form of getBlock's `accounts` detail: keys and balances, no instructions."""
    transaction = shown.transaction()
    version = version_json(transaction, max_version)
    meta = shown.meta
    body = {
        "meta": {
            "err": meta.err,
            "fee": meta.fee_lamports,
            "postBalances": list(meta.post_lamports),
            "postTokenBalances": token_balances_json(meta.post_tokens),
            "preBalances": list(meta.pre_lamports),
            "preTokenBalances": token_balances_json(meta.pre_tokens),
            "status": _status(meta.err),
        },
        "transaction": {
            "accountKeys": _parsed_keys(transaction.message, shown.keys, meta),
            "signatures": [str(signature) for signature in transaction.signatures],
        },
    }
    return body | version


def block_json(
    header: BlockHeader,
    transactions: Sequence[TransactionRecord],
    details: str,
    encoding: str,
    max_version: int | None,
    shows_rewards: bool,
    reward: Reward | None,
) -> dict[str, Any]:
    """A block in one of DETAILS. reward: of its leader. Raises UnsupportedVersion."""
    body: dict[str, Any] = {
        "blockHeight": header.height,
        "blockTime": header.unix_time,
        "blockhash": header.blockhash,
        "parentSlot": header.parent_slot,
        "previousBlockhash": header.previous_blockhash,
    }
    if shows_rewards:
        body["rewards"] = [] if reward is None else [_reward_json(reward)]
    if details == "signatures":
        body["signatures"] = [shown.signature for shown in transactions]
    elif details == "accounts":
        body["transactions"] = [transaction_accounts_json(shown, max_version) for shown in transactions]
    elif details == "full":
        body["transactions"] = [transaction_json(shown, encoding, max_version) for shown in transactions]
    return body


def _reward_json(reward: Reward) -> dict[str, Any]:
    return {
        "commission": None,
        "lamports": reward.lamports,
        "postBalance": reward.post_lamports,
        "pubkey": reward.pubkey,
        "rewardType": "Fee",
    }


def _encoded(shown: TransactionRecord, transaction: VersionedTransaction, encoding: str) -> Any:
    if encoding == "base64":
        return [base64.b64encode(shown.raw).decode(), "base64"]
    if encoding in ("base58", "binary"):
        text = base58.b58encode(shown.raw).decode()
        return text if encoding == "binary" else [text, "base58"]
    message = transaction.message
    parsed = encoding == "jsonParsed"
    return {
        "message": _parsed_message(message, shown) if parsed else _raw_message(message),
        "signatures": [str(signature) for signature in transaction.signatures],
    }


def _raw_message(message: AnyMessage) -> dict[str, Any]:
    header = message.header
    body: dict[str, Any] = {
        "accountKeys": [str(pubkey) for pubkey in message.account_keys],
        "header": {
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
            "numRequiredSignatures": header.num_required_signatures,
        },
        "instructions": [
            _compiled(instruction.program_id_index, instruction.accounts, instruction.data, OUTER_STACK_HEIGHT)
            for instruction in message.instructions
        ],
        "recentBlockhash": str(message.recent_blockhash),
    }
    return body | _by_version(message)


def _parsed_message(message: AnyMessage, shown: TransactionRecord) -> dict[str, Any]:
    keys = shown.keys
    body: dict[str, Any] = {
        "accountKeys": _parsed_keys(message, keys, shown.meta),
        "instructions": [
            ui_instruction(
                keys[instruction.program_id_index],
                tuple([keys[index] for index in instruction.accounts]),
                instruction.data,
                OUTER_STACK_HEIGHT,
            )
            for instruction in message.instructions
        ],
        "recentBlockhash": str(message.recent_blockhash),
    }
    return body | _by_version(message)


def _by_version(message: AnyMessage) -> dict[str, Any]:
    if isinstance(message, MessageV0):
        lookups = [
            {
                "accountKey": str(lookup.account_key),
                "readonlyIndexes": list(lookup.readonly_indexes),
                "writableIndexes": list(lookup.writable_indexes),
            }
            for lookup in message.address_table_lookups
        ]
        return {"addressTableLookups": lookups}
    if isinstance(message, MessageV1):
        config = message.config
        return {
            "transactionConfig": {
                "computeUnitLimit": config.compute_unit_limit,
                "heapSize": config.heap_size,
                "loadedAccountsDataSizeLimit": config.loaded_accounts_data_size_limit,
                "priorityFee": config.priority_fee,
            }
        }
    return {}


def _parsed_keys(message: AnyMessage, keys: tuple[str, ...], meta: TransactionMeta) -> list[dict[str, Any]]:
    static: tuple[Pubkey, ...] = tuple(message.account_keys)
    signers = message.header.num_required_signatures
    writable = writable_indexes(message, static)
    last_writable = len(static) + len(meta.loaded_writable)
    return [
        {
            "pubkey": key,
            "signer": index < signers,
            "source": "transaction" if index < len(static) else "lookupTable",
            "writable": index in writable if index < len(static) else index < last_writable,
        }
        for index, key in enumerate(keys)
    ]


def meta_json(meta: TransactionMeta, keys: tuple[str, ...], encoding: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "computeUnitsConsumed": meta.compute_units,
        "err": meta.err,
        "fee": meta.fee_lamports,
        "innerInstructions": inner_instructions_json(meta.inner, keys, encoding),
        "logMessages": list(meta.logs),
        "postBalances": list(meta.post_lamports),
        "postTokenBalances": token_balances_json(meta.post_tokens),
        "preBalances": list(meta.pre_lamports),
        "preTokenBalances": token_balances_json(meta.pre_tokens),
        "rewards": [],
        "status": _status(meta.err),
    }
    if encoding != "jsonParsed":  # jsonParsed lists loaded addresses in accountKeys.
        body["loadedAddresses"] = {"readonly": list(meta.loaded_readonly), "writable": list(meta.loaded_writable)}
    if meta.return_data is not None:
        body["returnData"] = return_data_json(meta.return_data)
    return body


def inner_instructions_json(
    inner: tuple[InnerInstructions, ...], keys: tuple[str, ...], encoding: str
) -> list[dict[str, Any]]:
    return [
        {
            "index": group.index,
            "instructions": [
                ui_instruction(
                    keys[call.program_index], tuple([keys[i] for i in call.accounts]), call.data, call.stack_height
                )
                if encoding == "jsonParsed"
                else _compiled(call.program_index, call.accounts, call.data, call.stack_height)
                for call in group.instructions
            ],
        }
        for group in inner
    ]


def _compiled(program_index: int, accounts: bytes, data: bytes, stack_height: int) -> dict[str, Any]:
    return {
        "accounts": list(accounts),
        "data": base58.b58encode(data).decode(),
        "programIdIndex": program_index,
        "stackHeight": stack_height,
    }


def token_balances_json(balances: tuple[TokenBalance, ...]) -> list[dict[str, Any]]:
    return [
        {
            "accountIndex": balance.account_index,
            "mint": balance.mint,
            "owner": balance.owner,
            "programId": balance.program,
            "uiTokenAmount": ui_token_amount(balance.amount, balance.decimals),
        }
        for balance in balances
    ]


def return_data_json(returned: ReturnData | None) -> dict[str, Any] | None:
    if returned is None:
        return None
    return {"data": [base64.b64encode(returned.data).decode(), "base64"], "programId": returned.program}


def _status(err: Any) -> dict[str, Any]:
    return {"Ok": None} if err is None else {"Err": err}
