"""The rules about money are those of deploy/observability/prometheus-rules.yaml."""

from actors.operators.money_rules import RULES
from tests.operators.test_rules import check


def test_money_rules_have_the_sentences_and_numbers_of_prometheus() -> None:
    check(RULES, "money")
