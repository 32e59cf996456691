"""The catalog is the one price list: a price that changes there changes the page of prices, quotes and charges."""

import subprocess
import sys
from pathlib import Path

_RUN = """
import sys
from tests.metering import changed_prices
changed_prices.change()
from tests.metering.charges import buy_one_of_everything
buy_one_of_everything(*sys.argv[1:])
print("one price list")
"""


def test_each_price_of_the_catalog_is_that_of_page_quote_and_ledger(
    postgres_url: str, owner_url: str, tmp_path: Path
) -> None:
    """Money rule 8: methods, bulk items, the relay, sockets' and streams' connections and events, gRPC calls, replays
    and intervals, webhook deliveries. In a process of its own, as modules read their prices when they are imported."""
    arguments = [sys.executable, "-c", _RUN, postgres_url, owner_url, str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(arguments, cwd=root, capture_output=True, text=True, check=False, timeout=200)
    assert done.stdout.strip() == "one price list", done.stderr[-8_000:]
