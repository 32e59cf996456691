"""Rules of alerts say the same as those for Prometheus: one sentence and one number for each fault."""

import re
from collections.abc import Iterable
from typing import Any

import yaml

from actors.operators.alerts import RULES
from actors.operators.rules import Rule, RuleKind
from tests.tidy.sources import ROOT

FILE = ROOT / "deploy/observability/prometheus-rules.yaml"
# Rules that need rates or quantiles over time, which the product itself does not keep; and one of Prometheus's own.
NOT_HERE = {"CommitsSlow", "CallsSlow", "CallsFail", "PageAway"}


def of_prometheus(group: str = "") -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    rules = (rule for each in groups if group in each["name"] for rule in each["rules"])
    return {rule["alert"].removeprefix("LedgerGateway"): rule for rule in rules}


def plain(text: str) -> str:
    text = " ".join(text.split()).replace("{{ $value }}", "{value}")
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"{\1}", text)


def check(rules: Iterable[Rule], group: str) -> None:
    theirs = of_prometheus(group)
    ours = {rule.name: rule for rule in rules}
    assert set(ours) == set(theirs) - NOT_HERE
    for name, rule in ours.items():
        other, expression = theirs[name], " ".join(theirs[name]["expr"].split())
        said = {field: plain(other["annotations"][field]) for field in ("summary", "means", "do")}
        assert (rule.summary, rule.means, rule.remedy) == (said["summary"], said["means"], said["do"]), name
        assert rule.severity == other["labels"]["severity"], name
        for figure in (*rule.figures, *([rule.also[0]] if rule.also else [])):
            assert f"ledger_gateway_{figure}" in expression, name
        if rule.kind in (RuleKind.ABOVE, RuleKind.BELOW, RuleKind.EQUAL):
            sign = {RuleKind.ABOVE: ">", RuleKind.BELOW: "<", RuleKind.EQUAL: "=="}[rule.kind]
            assert f"{sign} {rule.limit:g}" in expression, name
        if rule.seconds:
            assert f"{rule.seconds // 60}m" in expression, name


def test_each_rule_is_one_of_prometheus_or_is_named_as_missing() -> None:
    assert {rule.name for rule in RULES} | NOT_HERE == set(of_prometheus())
