"""The form of alert rules: one rule for each condition that a person should check.

Implements: decisions, "The operators' page" (alerts that are on). Pure vocabulary; the rules are in money_rules.py and
service_rules.py, with the sentences of deploy/observability/prometheus-rules.yaml, and alerts.py applies them.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Literal


@unique
class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@unique
class RuleKind(StrEnum):
    """How a figure is compared. GROWN: with its value `seconds` ago. STAYING: above the number for
    `seconds`. ABSENT: no process reports it.

    SILENT: an actor does not answer. WAITING: transfers wait for an operator.
    """

    ABOVE = "above"
    BELOW = "below"
    EQUAL = "equal"
    GROWN = "grown"
    STAYING = "staying"
    ABSENT = "absent"
    SILENT = "silent"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """name: as in the rules for Prometheus, without the product's name. figures: by names without namespace; one of
    them is enough. also: a further figure, which must be above its number too. for_each: one alert for each process;
    else one, with the worst value. summary: `{value}` and `{process}` stand in it.
    """

    name: str
    severity: Severity
    kind: RuleKind
    figures: tuple[str, ...] = ()
    limit: float = 0
    seconds: int = 0
    also: tuple[str, float] | None = None
    scope: Literal["each", "worst"] = "worst"
    summary: str
    means: str
    remedy: str
