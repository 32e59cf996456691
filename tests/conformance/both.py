"""One question asked of both: the node itself, and the gateway, whose charge is read off the balance it tells."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

_TRIES = 60  # The chain moves on between two answers; a slot is long enough for many tries.
_PAUSE_SECONDS = 0.02
_SECONDS = 35  # A little more than the longest timeout of a class.


@dataclass(frozen=True, slots=True)
class Said:
    """body: the exact bytes. charged: credits that the balance went down by."""

    status: int
    body: bytes
    charged: int = 0

    @property
    def value(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.value.get("error")
        return found


@dataclass(frozen=True, slots=True)
class Compared:
    """equal: `bytes`, `JSON`, or empty when they are not. gateway: the answer that was compared last."""

    equal: str
    gateway: Said
    node: Said


def rpc(method: str, params: list[Any]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


class Both:
    """The account must be used by nobody else, as charges are told from its balance."""

    def __init__(self, gateway_url: str, api_key: str, node_url: str) -> None:
        self._gateway_url, self._node_url = gateway_url, node_url
        self._key = {"X-Api-Key": api_key, "Content-Type": "application/json"}
        self._http = httpx.Client(timeout=_SECONDS)
        self._left = int(self._get("/account/info").headers["x-credits-remaining"])
        self.charged = 0  # In all, to be held against the ledger.

    def close(self) -> None:
        self._http.close()

    def node(self, method: str, *params: Any) -> Said:
        response = self._http.post(
            self._node_url, content=rpc(method, list(params)), headers={"Content-Type": "application/json"}
        )
        return Said(response.status_code, response.content.rstrip(b"\n"))

    def node_result(self, method: str, *params: Any) -> Any:
        said = self.node(method, *params)
        assert said.error is None, (method, params, said.error)
        return said.value["result"]

    def gateway(self, method: str, params: list[Any]) -> Said:
        return self.post("/", rpc(method, params))

    def post(self, path: str, body: bytes) -> Said:
        """Any path of the gateway; headers that an account's answers carry are expected."""
        return self._said(self._http.post(self._gateway_url + path, content=body, headers=self._key))

    def _said(self, response: httpx.Response) -> Said:
        left = int(response.headers["x-credits-remaining"])
        charged, self._left = self._left - left, left
        self.charged += charged
        return Said(response.status_code, response.content, charged)

    def get(self, path: str) -> Said:
        """A page of the gateway that is paid for."""
        return self._said(self._http.get(self._gateway_url + path, headers=self._key))

    def public(self, path: str) -> Any:
        """A page that is free and needs no credential."""
        return self._http.get(self._gateway_url + path).raise_for_status().json()

    def engine_result(self, method: str, *params: Any) -> Any:
        """The block engine, which the embedded node serves on its own port."""
        response = self._http.post(f"{self._node_url}/api/v1/{method}", content=rpc(method, list(params)))
        return response.raise_for_status().json()["result"]

    def tip_floor(self) -> Any:
        return self._http.get(f"{self._node_url}/api/v1/bundles/tip_floor").raise_for_status().json()[0]

    def compare(self, method: str, params: list[Any], direct: list[Any]) -> Compared:
        """Asked in turn until both answered from the same state of the chain, or the tries are used up."""

        def ask() -> tuple[Said, Said, str]:
            before, gateway = self.node(method, *direct), self.gateway(method, params)
            if same := equality(gateway, before):
                return gateway, before, same
            after = self.node(method, *direct)
            return gateway, after, equality(gateway, after)

        for _ in range(_TRIES):
            gateway, node, same = ask()
            if same:
                return Compared(same, gateway, node)
            time.sleep(_PAUSE_SECONDS)
        return Compared("", gateway, node)

    def agree(self, ask: Callable[[], tuple[Said, Any]]) -> tuple[Said, bool]:
        """A result of the gateway against one that was put together from the node's; as often as compare."""
        for _ in range(_TRIES):
            said, wanted = ask()
            if said.error is None and _result(said) == wanted:
                return said, True
            time.sleep(_PAUSE_SECONDS)
        return said, False

    def history_sum(self) -> int:
        """Credits of all charged calls of this account, as its own usage history has them."""
        total, offset = 0, 0
        while True:
            entries = self._get(f"/account/history?limit=500&offset={offset}").json()["entries"]
            total += sum(entry["credits"] for entry in entries)
            offset += len(entries)
            if len(entries) < 500:
                return total

    def _get(self, path: str) -> httpx.Response:
        response = self._http.get(self._gateway_url + path, headers=self._key)
        response.raise_for_status()
        return response


def equality(gateway: Said, node: Said) -> str:
    if gateway.status != 200:
        return ""
    if gateway.body == node.body:
        return "bytes"
    return "JSON" if gateway.value == node.value else ""


def _result(said: Said) -> Any:
    value = said.value
    return value["result"] if "jsonrpc" in value else value
