"""Answers about deposits, for clients and for the operator.

Implements: interface, `POST /account/confirm-deposit`. Pure.

A caller sees its own credits and balance only. Where a transaction brought credits to other wallets, the caller is told
their addresses, which are public on the chain.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from actors.deposits.core import REMAINDER_INDEX, WORDS, Finding, FindingStatus
from actors.deposits.transfers import place_of
from actors.units import base58_text, usdc_text


def confirm_body(
    pubkey: bytes, balance: int | None, parts: Sequence[tuple[bytes, int, int | None]], looked: bool
) -> dict[str, Any]:
    """pubkey, balance: of the caller, before this call. parts: (account, credits added, balance afterwards).

    looked: this call looked the transaction up, rather than one that came at the same time.
    """
    mine = [part for part in parts if part[0] == pubkey]
    added = sum(part[1] for part in mine)
    told = [part[2] for part in mine if part[2] is not None]
    newly = sum(part[1] for part in parts)
    body = {
        "ok": True,
        "credits_added": added,
        "new_balance": told[-1] if told else balance or 0,
        "already_processed": not (looked and newly),
    }
    others = [base58_text(part[0]) for part in parts if part[0] != pubkey]
    return body | {"credited_to": others} if others else body


def finding_body(finding: Finding) -> dict[str, Any]:
    """For the operator."""
    where = "-" if finding.index == REMAINDER_INDEX else place_of(finding.index)
    return {
        "signature": base58_text(finding.signature),
        "transfer": finding.index,
        "place": where,
        "slot": finding.slot,
        "time": None if finding.block_time is None else f"{datetime.fromtimestamp(finding.block_time, UTC):%F %T}Z",
        "status": finding.status.name.lower(),
        "why": finding.note or WORDS.get(finding.reason, ""),
        "usdc": usdc_text(finding.amount),
        "source": finding.source,
        "authority": finding.authority,
        "account": None if finding.pubkey is None else base58_text(finding.pubkey),
        "credits": finding.credits,
    }


def status_of(text: str) -> FindingStatus | None:
    """Raises KeyError for a word that is no status; None for `all`."""
    return None if text == "all" else FindingStatus[text.upper()]
