"""The rules about service are those of deploy/observability/prometheus-rules.yaml."""

from actors.operators.service_rules import RULES
from tests.operators.test_rules import check


def test_service_rules_have_the_sentences_and_numbers_of_prometheus() -> None:
    check(RULES, "service")
