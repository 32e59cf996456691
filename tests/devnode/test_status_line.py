import logging
from pathlib import Path

import pytest

from devnode.app import Devnode
from devnode.settings import Settings
from devnode.status_line import show_status


async def test_without_a_terminal_it_is_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    devnode = Devnode(Settings(data_dir=tmp_path, http_port=0))
    try:
        with caplog.at_level(logging.INFO, logger="devnode"):
            show_status(devnode)
    finally:
        devnode.close()
    (record,) = caplog.records
    assert f"http://127.0.0.1:{devnode.http_port}" in record.message
    assert str(devnode.node.faucet.pubkey) in record.message
