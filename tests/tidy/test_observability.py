"""deploy/observability/: alerts and dashboards that ask only for metrics and labels that the product has, and a README
that has all metrics."""

import ast
import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from actors.accounts.ledger import EntryType
from actors.calls import Outcome
from actors.config import Config
from actors.deposits.usdc.core import FindingStatus
from actors.errors import Err
from actors.sends.core import RaceState
from actors.telemetry.metrics import NAMESPACE, Metrics, Tally
from actors.telemetry.metrics_page import Reports, metrics_port
from tests.tidy.sources import ROOT, product

FOLDER = ROOT / "deploy/observability"
RULES = FOLDER / "prometheus-rules.yaml"
BOARDS = sorted((FOLDER / "grafana").glob("*.json"))
PROMQL_WORDS = {
    *("sum", "min", "max", "count", "topk", "by", "or", "and", "unless", "offset"),
    *("rate", "increase", "changes", "absent", "vector", "min_over_time", "histogram_quantile"),
}
# The lists that values of labels come from.
VALUES = {
    "error": {err.name for err in Err},
    "status": {status.name.lower() for status in FindingStatus},
    "type": {kind.name.lower() for kind in EntryType},
    "outcome": {each.name.lower() for each in (*Outcome, *RaceState)},
    "job": {"ledger-gateway"},
}


def watched() -> Iterator[str]:
    """The names of all gauges, from the calls of Metrics.watch in the product's source.

    A name is written as a literal, or made from the loop over literal tuples that the call is in."""
    for source in product():
        loops = [node for node in ast.walk(source.tree) if isinstance(node, ast.For)]
        for call in ast.walk(source.tree):
            if not (isinstance(call, ast.Call) and _is_watch(source.path, call.func)):
                continue
            name = call.args[0]
            if isinstance(name, ast.Constant):
                yield name.value
                continue
            around = [loop for loop in loops if call in ast.walk(loop)]
            assert around, f"{source.path}:{call.lineno}: a name that this test cannot find"
            for values in _rounds(around[-1]):
                yield eval(compile(ast.Expression(name), source.path, "eval"), values)


def _is_watch(path: str, called: ast.expr) -> bool:
    if not (isinstance(called, ast.Attribute) and called.attr == "watch"):
        return False
    receiver = ast.unparse(called.value)
    return receiver.endswith("metrics") or (receiver == "self" and path == "actors/telemetry/metrics.py")


def _rounds(loop: ast.For) -> Iterator[dict[str, Any]]:
    assert isinstance(loop.iter, ast.Tuple) and isinstance(loop.target, ast.Tuple)
    for each in loop.iter.elts:
        assert isinstance(each, ast.Tuple)
        pairs = zip(loop.target.elts, each.elts, strict=True)
        yield {ast.unparse(target): value.value for target, value in pairs if isinstance(value, ast.Constant)}


@cache
def on_the_page() -> dict[str, set[str]]:
    """The labels of each series that GET /metrics can have, by its name, once everything has been counted."""
    metrics = Metrics()
    for name in watched():
        metrics.watch(name, "of a test", lambda: 0.0)
    for tally in vars(metrics).values():
        if isinstance(tally, Tally):
            tally.add(("any",) * len(tally._labels))
    metrics.call_ended("getSlot", Outcome.ANSWERED, 1, 0.1)
    reports = Reports("10.0.0.11", lambda: 0.5)
    reports.keep("gateway-1", metrics.families(), 0.0, 0.0)
    found: dict[str, set[str]] = defaultdict(set)
    for family in reports.collect():
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return found | {"up": {"job", "instance"}}  # Prometheus's own, of each target.


def faults(expression: str) -> list[str]:
    """What the product does not have, of an expression in PromQL; and labels that none of its metrics has."""
    text = expression.replace("$__rate_interval", "5m")
    wrong, allowed = [], {"le", "job", "instance"}
    selectors = re.findall(rf"\b({NAMESPACE}_\w+|up)\b(?:\{{([^}}]*)\}})?", text)
    for name, matchers in selectors:
        labels = on_the_page().get(name)
        if labels is None:
            wrong.append(name)
            continue
        allowed |= labels
        for label, sign, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
            if label not in labels:
                wrong.append(f"{name}: {label}")
            if sign in ("=", "=~"):
                wrong += [f"{label}: {one}" for one in value.split("|") if one not in VALUES.get(label, {one})]
    for grouped in re.findall(r"\bby \(([^)]*)\)", text):
        wrong += [label for label in re.split(r",\s*", grouped) if label not in allowed]
    rest = re.sub(rf'"[^"]*"|\{{[^}}]*\}}|\[[^\]]*\]|\bby \([^)]*\)|\b(?:{NAMESPACE}_\w+|up)\b', " ", text)
    rest = re.sub(r"\b\d+(?:\.\d+)?[smh]?\b", " ", rest)
    return wrong + [word for word in re.findall(r"[A-Za-z_]\w*", rest) if word not in PROMQL_WORDS]


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def panels() -> list[tuple[str, dict[str, Any]]]:
    return [(path.name, panel) for path in BOARDS for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]]


def test_every_alert_asks_for_what_the_product_has() -> None:
    """An alert on a metric that was renamed never fires, and nobody notices."""
    assert {rule["alert"]: faults(rule["expr"]) for rule in alerts() if faults(rule["expr"])} == {}


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("max(ledger_gateway_invented) > 0", "ledger_gateway_invented"),
        ('sum(ledger_gateway_refusals_total{method="x"})', "ledger_gateway_refusals_total: method"),
        ('sum(ledger_gateway_refusals_total{error="NO_ROW"})', "error: NO_ROW"),
        ("sum by (account) (ledger_gateway_holds)", "account"),
        ("max(leger_gateway_holds) > 0", "leger_gateway_holds"),
        ("ledger_gateway_commit_seconds", "ledger_gateway_commit_seconds"),
    ],
)
def test_a_mistake_in_an_expression_is_found(expression: str, wrong: str) -> None:
    """Metrics, labels, their values and misspelt words; a histogram has no series of its bare name."""
    assert faults(expression) == [wrong]


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    """Who is called at night does not know the code."""
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names)) >= 30
    for rule in alerts():
        assert rule["alert"].startswith("LedgerGateway")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "means", "do"}
        assert min(len(rule["annotations"][word]) for word in ("means", "do")) > 40
        labels = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", rule["expr"]))))
        assert not grouped or labels <= grouped, f"{rule['alert']}: its text names a label that its result lacks"


def test_every_panel_asks_for_what_the_product_has() -> None:
    wrong = [
        (board, panel["title"], found)
        for board, panel in panels()
        for target in panel["targets"]
        if (found := faults(target["expr"]))
    ]
    assert wrong == []


def test_dashboards_can_be_imported_and_together_show_every_metric() -> None:
    """Each with an id of its own and the data source that its reader chooses; a metric that no panel and no alert has
    is watched by nobody."""
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in BOARDS]
    assert len({board["uid"] for board in boards}) == len(boards) == 3
    assert all(panel["datasource"]["uid"] == "${datasource}" for _, panel in panels())
    for board in boards:
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    shown = json.dumps(boards) + RULES.read_text(encoding="utf-8")
    missing = {name for name in documented() if f"{NAMESPACE}_{name}" not in shown}
    assert missing == set()


def documented() -> set[str]:
    """The names in the tables of launch/README.md, "Metrics"."""
    text = (ROOT / "actors/launch/README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_operators_reference_has_every_metric_and_no_other() -> None:
    """launch/README.md, "Metrics". A histogram is named once; the others as they are on the page."""
    series = {name.removeprefix(f"{NAMESPACE}_") for name in on_the_page() if name != "up"}
    histograms = {name.removesuffix("_bucket") for name in series if name.endswith("_bucket")}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert documented() == (series - parts) | histograms


def test_prometheus_asks_the_port_that_the_pages_have() -> None:
    """The example, its comment for Kubernetes, and the policy that lets Prometheus in."""
    text = (FOLDER / "prometheus.yaml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["job_name"] in VALUES["job"]
    assert set(re.findall(r"(?<=\d):(\d{2,})\b", text)) == {str(metrics_port(Config()))}
    assert yaml.safe_load(text)["rule_files"] == [RULES.name]
    policy = yaml.safe_load((ROOT / "deploy/kubernetes/network-policy.yaml").read_text(encoding="utf-8"))
    assert {"port": 21004} in [port for rule in policy["spec"]["ingress"] for port in rule.get("ports", ())]


@pytest.mark.parametrize("command", [("check", RULES.name), ("test", "prometheus-rules-test.yaml")])
def test_prometheus_itself_takes_the_rules(command: tuple[str, str]) -> None:
    """By its own tool, where it is installed: syntax, and the rules that must tell a first value from none."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    words = [promtool, command[0], "rules", command[1]]
    done = subprocess.run(words, check=False, cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
