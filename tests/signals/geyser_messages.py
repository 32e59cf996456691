"""Stored samples as messages of the Yellowstone stream."""

from typing import Any

import base58

from actors.geyser_proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from actors.signals.transaction import Transaction, known_key


def message_of(transaction: Transaction, payload: dict[str, Any]) -> SubscribeUpdateTransactionInfo:
    """Build the message from the JSON form (encoding json) of a transaction."""
    body, meta = payload["transaction"]["message"], payload["meta"]
    info = SubscribeUpdateTransactionInfo(signature=transaction.signature)
    message = info.transaction.message
    message.header.num_required_signatures = body["header"]["numRequiredSignatures"]
    message.account_keys.extend(known_key(text) for text in body["accountKeys"])
    for one in body["instructions"]:
        message.instructions.add(
            program_id_index=one["programIdIndex"], accounts=bytes(one["accounts"]), data=base58.b58decode(one["data"])
        )
    loaded = meta.get("loadedAddresses") or {"writable": [], "readonly": []}
    info.meta.loaded_writable_addresses.extend(known_key(text) for text in loaded["writable"])
    info.meta.loaded_readonly_addresses.extend(known_key(text) for text in loaded["readonly"])
    info.meta.pre_balances.extend(meta["preBalances"])
    info.meta.post_balances.extend(meta["postBalances"])
    for group in meta["innerInstructions"] or ():
        inner = info.meta.inner_instructions.add(index=group["index"])
        for one in group["instructions"]:
            inner.instructions.add(
                program_id_index=one["programIdIndex"],
                accounts=bytes(one["accounts"]),
                data=base58.b58decode(one["data"]),
                stack_height=one.get("stackHeight"),
            )
    for name in ("pre_token_balances", "post_token_balances"):
        for row in meta["preTokenBalances" if name.startswith("pre") else "postTokenBalances"]:
            added = getattr(info.meta, name).add(
                account_index=row["accountIndex"], mint=row["mint"], owner=row.get("owner", "")
            )
            added.ui_token_amount.amount = row["uiTokenAmount"]["amount"]
    return info
