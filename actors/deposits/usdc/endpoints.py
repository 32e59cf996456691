"""Transfers as the operator sees them.

Implements: the operator's reference of this context. Pure.
"""

from datetime import UTC, datetime
from typing import Any

from actors.deposits.usdc.core import REMAINDER_INDEX, WORDS, Finding, FindingStatus
from actors.deposits.usdc.transfers import place_of
from actors.units import base58_text, usdc_text


def finding_body(finding: Finding) -> dict[str, Any]:
    """Build a finding's fields for the operator."""
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
    """Parse a status; None for `all`. Raises KeyError for any other word."""
    return None if text == "all" else FindingStatus[text.upper()]
