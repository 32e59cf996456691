"""Evaluates which alerts are on in the running product.

Implements: decisions, "The operators' page" (alerts that are on). Pure: takes a ProductLook, returns alerts. An alert
is on as soon as its figure crosses the limit; Prometheus also waits for each rule's `for`. Not here: rules that need
rates over time (README.md, "Alerts").
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from actors.operators import money_rules, service_rules
from actors.operators.ports import ProductLook
from actors.operators.rules import Rule, RuleKind, Severity
from actors.telemetry.figures import ProcessFigures

RULES: tuple[Rule, ...] = (*money_rules.RULES, *service_rules.RULES)
REPORTED_SECONDS = 30  # As on the page of metrics: a process silent for longer counts as ended.
_ORDER = tuple(Severity)
_PAGES = "metrics-page-"  # Name prefix of the pages of metrics; one alert reports all missing ones.


class Alert(NamedTuple):
    """process: name of the process; empty if the rule covers all of them."""

    name: str
    severity: Severity
    summary: str
    means: str
    remedy: str
    process: str = ""
    machine: str = ""
    value: float | None = None


class _Found(NamedTuple):
    value: float
    process: str = ""
    machine: str = ""


def alerts_on(look: ProductLook, listed: int | None, has_watcher: bool, rules: Iterable[Rule] = RULES) -> list[Alert]:
    """Return the alerts, most serious first. listed: transfers that wait for an operator; None: unknown.

    has_watcher: whether deposits are watched at all.
    """
    found = [alert for rule in rules if _applies(rule, has_watcher) for alert in _alerts(rule, look, listed)]
    return sorted(found, key=lambda alert: (_ORDER.index(alert.severity), alert.name, alert.machine, alert.process))


def _applies(rule: Rule, has_watcher: bool) -> bool:
    return has_watcher or not any(name.startswith("deposits_") for name in rule.figures)


def _alerts(rule: Rule, look: ProductLook, listed: int | None) -> Iterator[Alert]:
    for one in _found(rule, look, listed):
        value = f"{one.value:,.3f}".rstrip("0").rstrip(".")
        places = {"{value}": value, "{process}": one.process, "{machine}": one.machine}
        summary = rule.summary
        for place, text in places.items():
            summary = summary.replace(place, text)
        yield Alert(rule.name, rule.severity, summary, rule.means, rule.remedy, one.process, one.machine, one.value)


def _found(rule: Rule, look: ProductLook, listed: int | None) -> Iterable[_Found]:
    match rule.kind:
        case RuleKind.WAITING:
            return [_Found(listed)] if listed else []
        case RuleKind.SILENT:
            return [_Found(0, name) for name, state in look.actors.items() if not state]
    if look.figures is None:
        return []
    if rule.kind is RuleKind.ABSENT:
        known = any(name in one.gauges for one in look.figures for name in rule.figures)
        # If a page of metrics does not answer, the figures of its machine are unknown.
        return [] if known or _is_page_away(look) else [_Found(0)]
    hits = [hit for one in look.figures if (hit := _hit(rule, one)) is not None]
    return hits if rule.scope == "each" else _worst(rule, hits)


def _is_page_away(look: ProductLook) -> bool:
    return any(not state for name, state in look.actors.items() if name.startswith(_PAGES))


def _hit(rule: Rule, one: ProcessFigures) -> _Found | None:
    for name in rule.figures:
        value = _value(rule, one, name)
        if value is None or not _is_beyond(rule, value):
            continue
        if rule.also is None or one.gauges.get(rule.also[0], 0) > rule.also[1]:
            return _Found(value, one.process, one.machine)
    return None


def _value(rule: Rule, one: ProcessFigures, name: str) -> float | None:
    if rule.kind is RuleKind.GROWN:
        return one.grown.get(rule.seconds, {}).get(name)
    return one.least.get(name) if rule.kind is RuleKind.STAYING else one.gauges.get(name)


def _is_beyond(rule: Rule, value: float) -> bool:
    if rule.kind is RuleKind.EQUAL:
        return value == rule.limit
    return value < rule.limit if rule.kind is RuleKind.BELOW else value > rule.limit


def _worst(rule: Rule, hits: Sequence[_Found]) -> list[_Found]:
    if not hits:
        return []
    return [min(hits) if rule.kind is RuleKind.BELOW else max(hits, key=lambda hit: hit.value)]
