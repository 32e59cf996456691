"""`python -m tests.conformance`: start the product, ask both, write the table. Exit code 1 when a row is unequal."""

import shutil
import sys
import tempfile
from pathlib import Path

from bench.product import Product, free_ports
from tests.conformance import table
from tests.conformance.session import rows_of


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-conformance-"))
    folder.chmod(0o711)  # Run by root, the stores run as another user, who must be able to pass through.
    product = Product(folder / "data", {"LEDGER_GATEWAY__REPLICAS": "1"}, free_ports())
    try:
        product.start()
        rows = rows_of(product)
    finally:
        product.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for complaint in table.complaints(rows):
        print(complaint, file=sys.stderr)
    table.write(table.text(rows))
    print(f"{len(rows)} rows written to {table.README}")
    return 1 if table.complaints(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
