import jsonschema

from actors.documents.receipt_schemas import SCHEMAS
from tests.ledger_gateway.test_receipts import KEYS, receipts


def test_what_the_pages_answer_has_the_forms_that_are_told() -> None:
    made = receipts()
    between = {"account": made[0]["account"], "after": 4, "entries": [made[1]["entry"]]}
    for name, answer in (
        ("Receipts", {"receipts": made, "pending": 0, "next_cursor": None}),
        ("Consistency", between),
        ("LedgerKeys", KEYS),
    ):
        jsonschema.validate(answer, SCHEMAS[name])
