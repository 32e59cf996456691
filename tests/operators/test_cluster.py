"""Owners and alerts over the door: every actor with what it tells, and what a person should look at."""

from actors.errors import Err, Refusal
from actors.operators.cluster import owners_body
from actors.operators.ports import ProductLook
from actors.telemetry.figures import ProcessFigures
from tests.operators.world import operated


async def test_owners_come_first_with_what_they_hold_and_how_far_behind_they_are() -> None:
    owner = {"machine": "10.0.0.1", "process": 5, "epoch": 7, "shards": 1024, "oldest_hold_seconds": 3}
    actors = {"a-hub": {"machine": "10.0.0.1"}, "account-shard-0": owner, "account-shard-1": {}}
    figures = [ProcessFigures("10.0.0.1", "account-shard-0", 1.0, {"unsealed_seconds": 12.7}, {})]
    rows = owners_body(ProductLook(7, actors, figures))["actors"]
    assert [row["name"] for row in rows] == ["account-shard-0", "account-shard-1", "a-hub"]
    assert [row["answers"] for row in rows] == [True, False, True]
    assert (rows[0]["unsigned_seconds"], rows[0]["oldest_hold_seconds"], rows[1]["unsigned_seconds"]) == (12, 3, None)


async def test_alerts_are_told_over_http_with_their_remedies() -> None:
    """A transfer that waits, an actor that is silent; and 503 where nobody can be asked."""
    async with operated() as one:
        alerts = {alert["name"]: alert for alert in (await one.ask("GET", "alerts")).json()["alerts"]}
        assert {"ActorAway", "DepositsNeedYou"} <= set(alerts) and alerts["ActorAway"]["process"] == "x"
        assert all(alert["means"] and alert["remedy"] for alert in alerts.values())
        assert (await one.ask("GET", "owners")).json()["actors"][0]["name"] == "account-shard-0"
        one.running.now = Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, "gone")
        for path in ("alerts", "owners"):
            assert (await one.ask("GET", path)).status_code == 503
