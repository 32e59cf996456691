"""A method of our own takes at most four files: docs/exercises/getEcho.patch, applied to a copy of the product."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT

PATCH = ROOT / "docs" / "exercises" / "getEcho.patch"
_IN_THE_COPY = """
import asyncio, json

from actors.config import Config
from actors.documents import endpoints
from actors.gateway.calls import outcomes
from actors.launch.assembly.replica import with_own_methods
from actors.status.endpoints import pricing_document
from actors.status.products import Doors
from tests.documents.service import the_offer
from tests.gateway.doors.mcp.test_door import VERSION, post, request
from tests.gateway.doubles import ScriptedNode
from tests.gateway.world import a_world, call


async def ask() -> None:
    async with a_world(with_own_methods(ScriptedNode(), Config())) as world:
        wallet = await world.customer(100)
        assert (await world.rpc(wallet, call("getEcho", "hello"))).json()["result"] == "hello"
        for wrong in ([], [7], ["hello", "again"]):
            assert (await world.rpc(wallet, call("getEcho", *wrong))).json()["error"]["code"] == -32602
        quote = (await world.rpc(wallet, call("getEcho", "hello"), "/quote")).json()
        assert (quote["credits"], quote["exact"]) == (3, True), quote
        listed = await post(world, request("tools/list"), **VERSION)
        (tool,) = [tool for tool in listed.json()["result"]["tools"] if tool["name"] == "getEcho"]
        assert "3 credits" in json.dumps(tool) and "maxLength" in json.dumps(tool), tool
        assert await world.debits(wallet) == [("getEcho", 3)]


asyncio.run(ask())
(described,) = [one for one in json.loads(endpoints.openrpc_bytes(the_offer()))["methods"] if one["name"] == "getEcho"]
assert described["summary"] and [one["name"] for one in described["params"]] == ["text"], described
page = pricing_document(Config().payments, Config().pricing, outcomes.PUBLISHED, Doors())
assert page["methods"]["getEcho"]["credits"] == 3
"""


def test_a_new_method_takes_at_most_four_files(tmp_path: Path) -> None:
    """Callable, charged, checked, quoted and in every document, by its entry and its handler alone."""
    touched = re.findall(r"(?m)^\+\+\+ b/(.+)$", PATCH.read_text(encoding="utf-8"))
    assert 0 < len(touched) <= 4, touched
    shutil.copytree(ROOT / "actors", tmp_path / "actors")
    (tmp_path / "tests").mkdir()
    for part in (ROOT / "tests").iterdir():
        if f"tests/{part.name}/" not in "".join(touched):
            (tmp_path / "tests" / part.name).symlink_to(part)
        else:
            shutil.copytree(part, tmp_path / "tests" / part.name)
    applied = subprocess.run(
        ["git", "apply", str(PATCH)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert applied.returncode == 0, applied.stderr
    ran = subprocess.run(
        [sys.executable, "-c", _IN_THE_COPY],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
