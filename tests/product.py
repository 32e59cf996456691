"""The whole product, started once a session for every test that needs it, and shown to leave no process behind.

A pytest plugin: the folders whose tests need it register it (see tests/cluster/conftest.py), so that the tests which do
not need it never meet it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.product import Product, free_ports

# Everything comes from one address here; the limit per address has its own tests.
_SETTINGS = {"LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000", "LEDGER_GATEWAY__REPLICAS": "2"}


@pytest.fixture(scope="session")
def product(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Ready to serve. A test that stops it must start it again; stopping fails when a process of it is left.

    When a test has failed, its logs are kept, and where they are is printed.
    """
    if hasattr(request.config, "workerinput"):  # The folder above a worker's own is the whole session's.
        (tmp_path_factory.getbasetemp().parent / "product").mkdir()  # Fails where another worker has started one.
    folder = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    folder.chmod(0o711)  # Run by root, the stores run as another user, who must be able to pass through.
    running = Product(folder / "data", _SETTINGS, free_ports())
    try:
        running.start()
        yield running
    except BaseException:
        running.kill()
        _keep_logs(running, request.config)
        raise
    else:
        running.stop()
    finally:
        if request.session.testsfailed:
            _keep_logs(running, request.config)
        shutil.rmtree(folder, ignore_errors=True)


def _keep_logs(running: Product, config: pytest.Config) -> None:
    kept = Path(tempfile.mkdtemp(prefix="ledger-gateway-failed-"))
    for path in (running.output_path, *running.data_dir.glob("logs/*")):
        shutil.copy(path, kept)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\nlogs of the product under test: {kept}")
