"""Reads transactions of the chain, from a node's stream and from its blocks, into one form.

Implements: interface, "Webhook deliveries", rule 1 (successful transactions only); decisions,
"transaction-watch payload". Pure. What a node sends is not trusted to be whole: a transaction that cannot be read is
None.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.geyser_proto import geyser_pb2
from actors.units import base58_text
from actors.webhooks.payloads import WatchedTransaction


def from_stream(update: geyser_pb2.SubscribeUpdateTransaction, block_time: int | None) -> WatchedTransaction | None:
    """Read a transaction of the stream. None: it failed, or it is a vote."""
    info = update.transaction
    meta, message = info.meta, info.transaction.message
    if info.is_vote or meta.HasField("err") or not info.transaction.signatures:
        return None
    keys = [base58_text(key) for key in (*message.account_keys, *meta.loaded_writable_addresses)]
    keys += [base58_text(key) for key in meta.loaded_readonly_addresses]
    invoked = [one.program_id_index for one in message.instructions]
    invoked += [one.program_id_index for inner in meta.inner_instructions for one in inner.instructions]
    before, after = (
        {
            balance.account_index: (
                balance.mint,
                balance.owner,
                balance.ui_token_amount.amount,
                balance.ui_token_amount.decimals,
            )
            for balance in balances
        }
        for balances in (meta.pre_token_balances, meta.post_token_balances)
    )
    return WatchedTransaction(
        base58_text(info.transaction.signatures[0]),
        update.slot,
        block_time,
        tuple(keys),
        frozenset(keys[index] for index in invoked if index < len(keys)),
        meta.fee,
        tuple(meta.log_messages),
        _token_changes(keys, before, after),
        _sol_changes(keys, meta.pre_balances, meta.post_balances),
    )


def from_block(slot: int, block: Mapping[str, Any]) -> list[WatchedTransaction]:
    """Read the successful transactions of a getBlock answer with encoding "json" and full details."""
    found = []
    block_time = block.get("blockTime")
    for row in block.get("transactions") or ():
        try:
            read = _from_json(slot, block_time, row)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError):
            continue
        if read is not None:
            found.append(read)
    return found


def _from_json(slot: int, block_time: int | None, row: Mapping[str, Any]) -> WatchedTransaction | None:
    meta, transaction = row["meta"], row["transaction"]
    if meta["err"] is not None:
        return None
    message = transaction["message"]
    loaded = meta.get("loadedAddresses") or {}
    keys = [*message["accountKeys"], *loaded.get("writable", ()), *loaded.get("readonly", ())]
    invoked = [one["programIdIndex"] for one in message["instructions"]]
    for inner in meta.get("innerInstructions") or ():
        invoked += [one["programIdIndex"] for one in inner["instructions"]]
    before, after = (
        {
            balance["accountIndex"]: (
                balance["mint"],
                balance.get("owner", ""),
                balance["uiTokenAmount"]["amount"],
                balance["uiTokenAmount"]["decimals"],
            )
            for balance in meta.get(name) or ()
        }
        for name in ("preTokenBalances", "postTokenBalances")
    )
    return WatchedTransaction(
        transaction["signatures"][0],
        slot,
        block_time,
        tuple(keys),
        frozenset(keys[index] for index in invoked),
        meta["fee"],
        tuple(meta.get("logMessages") or ()),
        _token_changes(keys, before, after),
        _sol_changes(keys, meta["preBalances"], meta["postBalances"]),
    )


def _sol_changes(keys: Sequence[str], before: Sequence[int], after: Sequence[int]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"account": key, "lamports": now - was}
        for key, was, now in zip(keys, before, after, strict=False)
        if now != was
    )


def _token_changes(
    keys: Sequence[str],
    before: Mapping[int, tuple[str, str, str, int]],
    after: Mapping[int, tuple[str, str, str, int]],
) -> tuple[dict[str, Any], ...]:
    """Return balance changes; a token account missing before or after counts as empty."""
    found = []
    for index in sorted({*before, *after}):
        mint, owner, _, decimals = after.get(index) or before[index]
        change = _amount(after.get(index)) - _amount(before.get(index))
        if change and index < len(keys):
            account = {"mint": mint, "owner": owner, "token_account": keys[index]}
            found.append(account | {"amount": str(change), "decimals": decimals})
    return tuple(found)


def _amount(balance: tuple[str, str, str, int] | None) -> int:
    return 0 if balance is None else int(balance[2])
