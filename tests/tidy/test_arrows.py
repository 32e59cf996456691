"""Which way imports point: the picture of actors/README.md as data."""

from collections.abc import Iterable

import pytest

from tests.tidy.sources import ROOT, Source, embedded_chain, imports, over, product

# Shared files, lowest first: a file may import those before it.
SHARED = (
    *("release", "growing", "addresses", "units", "times", "clock", "errors", "provider_config"),
    *("operator_config", "pricing_config", "stream_config", "config", "config_loader"),
    *("x402_types", "request_ids", "calls", "events", "pages"),
    *("place_shares", "actor_settings"),
    *("background", "gathered", "start_line", "side_program", "side_process", "leaving", "free_memory"),
    *("actor_methods", "small_actors", "seats", "hosting", "actor_moves", "actor_client"),
)
# Contexts, lowest level first. A context may import lower levels and shared files, never its own level.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("methods",),  # The vocabulary of JSON-RPC methods: what there is, what it costs, which parameters it takes.
    (
        "local_servers",
        "storage",
        "telemetry",
        "http_server",
        "grpc_http2",
    ),  # What every process of the product stands on.
    (
        "identity",
        "idempotency",
        "call_log",
        "ownership",
        "receipts",
        "upstream",
        "hotlink",
        "geyser_proto",
        "launch_programs",
    ),
    ("accounts",),
    ("metering",),
    (
        *(
            "gateway",
            "console",
            "deposits",
            "documents",
            "fees",
            "lookups",
            "memos",
            "operators",
            "sends",
            "status",
            "trades",
            "streams",
            "webhooks",
            "signals",
        ),
    ),
    ("launch",),  # Wiring of a run: sees everything, as serve_app does; nothing but serve_app sees it.
)
# What others may import of a context, beside its api.py. Wiring may import all.
OPEN = {
    # A vocabulary: each context reads the part that it needs.
    "methods": {
        *(
            "catalog",
            "context_slots",
            "entries",
            "forms",
            "price_lists",
            "prices",
            "rules",
            "signed_transactions",
            "transactions",
            "values",
        ),
        *("accounts", "assets", "bundles", "fees", "history", "sends", "trades"),
    },
    # Tools without rules of their own: each module is used as it is.
    "local_servers": {
        "certificates",
        "child_processes",
        "datadir",
        "embedded_postgres",
        "embedded_redis",
        "ports",
        "postgres_roles",
        "private_files",
    },
    "storage": {"connections", "schema"},
    "telemetry": {"figures", "logs", "metrics", "metrics_page", "traces", "tracing"},
    # gRPC on both sides: servers, clients, and their calls; large messages as one piece.
    "grpc_http2": {"client", "client_call", "links", "server"},
    "http_server": {"backlog", "choice", "exchange", "responses", "unfinished_messages", "websocket"},
    # Pure rules of credentials, used by the doors, and the port of their store, used by the owners of accounts.
    "identity": {
        *(
            "client_addresses",
            "challenge",
            "credentials",
            "endpoints",
            "operator_token",
            "signatures",
            "store",
            "wallet",
        ),
    },
    # Rules and port of the keys of requests; the gateway runs the calls.
    "idempotency": {"core", "store"},
    # The calls of this process, which the gateway notes.
    "call_log": {"core"},
    # Holders of slices, their even spread and their moves, for every kind of actor that scales.
    "ownership": {"director", "held", "keeper", "moves", "pulses", "silence", "spread", "spreading", "store", "team"},
    # What a node's answer means, and the state that health is told from; an operator's commands about nodes, as values;
    # what callers make of each node; the place that a part of a call holds while it asks, and the memory that a large
    # answer holds while it is sent.
    "upstream": {
        *("account_view", "held_places", "large_bodies", "memory_budget", "node_commands", "node_health"),
        *("node_work", "replies", "signature_status", "single_nodes", "whole_bodies"),
    },
    # A transport: both ends of it, and the form of what travels.
    "hotlink": {"frames", "owner", "replica"},
    # Database, report and checkpoints for the audit that compares deposits with the chain; events, for their delivery.
    # The vocabulary and limits of usage and listings, for their pages. Commands for work that no call waits for, and
    # for facts of other contexts; their comparison with rows.
    "accounts": {
        "audit_database",
        "audit_report",
        "bills",
        "checkpoint",
        "directory",
        "fact_commands",
        "facts",
        "hourly_commands",
        "hourly_limit",
        "key_requests",
        "ledger",
        "listings",
        "named_keys",
        "operations",
        "outbox",
        "price_list",
        "price_list_commands",
        "proven_roots",
        "signed_links",
        "receipts",
        "runway",
        "told_lists",
        "usage",
    },
    # What open streams pay with and are ended by, and the ports of what is paid for.
    "metering": {"meter", "meters", "minutes", "standing_watch"},
    # Trees, statements and keys: a format, and the file that has it.
    "receipts": {"checks", "merkle", "root_keys", "roots_file", "statements"},
    # Generated messages: a format, not rules.
    "geyser_proto": {"geyser_pb2", "solana_storage_pb2"},
    # Layouts, addresses and integer formulas of programs on the chain: a format as well.
    "launch_programs": {
        *("accounts", "addresses", "borsh", "configs", "curve_account", "curve_math", "events"),
        *("fee_schedule", "instructions", "pdas", "pools"),
        *("cpmm", "pool_events", "pool_trades"),
    },
}
WIRING = "launch"
# devnode stands for a node of the network: it may know formats and the server, and nothing of the gateway's own.
DEVNODE_IMPORTS = {"units", "clock", "hosting", "free_memory", "http_server", "geyser_proto", "launch_programs"}
DEVNODE_IMPORTS |= {"local_servers.ports", "local_servers.certificates"}
# Folders of devnode, lowest first, as in its README; "" is the process itself.
DEVNODE_LEVELS: tuple[tuple[str, ...], ...] = (
    ("methods",),  # The vocabulary of JSON-RPC methods: what there is, what it costs, which parameters it takes.
    ("ports",),
    ("encoding",),
    ("records",),
    ("parsing", "faults"),
    ("execution",),
    ("launchpad", "journal"),
    ("chain",),
    ("market", "cloning"),
    ("rpc",),
    ("geyser", "pubsub", "tpu", "block_engine"),
    ("",),
)


# Rooms of a context that is too large for one, lowest first: a module imports its own room and lower ones. Modules
# beside the rooms (api.py, actor.py) are outside this order.
ROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "gateway": (("calls",), ("payments",), ("pages",), ("doors",)),
    "streams": (("yellowstone",), ("hub",), ("websocket",)),
    "deposits": (("usdc",), ("x402",)),
    "launch": (("front",), ("assembly", "local_run"), ("operator",)),
}


def level_of(context: str) -> int:
    for level, names in enumerate(LEVELS):
        if context in names:
            return level
    raise AssertionError(f"actors/{context}: a new context; give it a level in tests/tidy/test_arrows.py")


def context_of(module: str) -> str | None:
    """None for a shared file."""
    parts = module.split(".")
    assert parts[0] == "actors", module
    return parts[1] if len(parts) > 2 or parts[1] not in SHARED else None


def complaints(source: Source) -> list[str]:
    found = []
    ours = [name for name in imports(source) if name.partition(".")[0] in ("actors", "serve_app") and name != "actors"]
    for target in ours:
        complaint = "nothing imports serve_app" if target == "serve_app" else _complaint(source.module, target)
        if complaint:
            found.append(f"{source.path} imports {target}: {complaint}")
    return found


def _complaint(module: str, target: str) -> str | None:
    if module == "serve_app":
        return None
    mine, theirs = context_of(module), context_of(target)
    if mine is None:
        if theirs is not None:
            return "shared files know no context"
        here, there = module.split(".")[1], target.split(".")[1]
        return None if SHARED.index(there) < SHARED.index(here) else "shared files import only those below them"
    if theirs is None or theirs == mine or mine == WIRING:
        return None
    if level_of(theirs) >= level_of(mine):
        return "arrows point down only, and siblings never meet"
    name = target.split(".")[2] if target.count(".") > 1 else "__init__"
    if name != "api" and name not in OPEN.get(theirs, set()):
        return f"of {theirs} others may import only {sorted({'api', *OPEN.get(theirs, set())})}"
    return None


@over(product())
def test_arrows_point_down(source: Source) -> None:
    """Design, "Layout": serve_app, features, accounts, identity and upstream, shared files."""
    assert complaints(source) == []


def test_every_shared_file_has_its_place() -> None:
    """A new file directly under actors/ is vocabulary for all: say what it may rest on."""
    found = {source.stem for source in product() if source.path.count("/") == 1} - {"__init__"}
    assert found == set(SHARED)


def test_every_context_has_a_level() -> None:
    """A new folder under actors/ is a context: say what it may rest on."""
    for source in product():
        if source.path.count("/") > 1:
            level_of(source.path.split("/")[1])


def test_the_map_has_every_place() -> None:
    """actors/README.md is where a stranger starts."""
    map_text = (ROOT / "actors" / "README.md").read_text(encoding="utf-8")
    for source in product():
        parts = source.path.split("/")
        name = f"`{parts[1]}/`" if len(parts) > 2 else f"`{parts[-1]}`"
        assert source.stem == "__init__" or name in map_text, name


def test_wiring_is_seen_by_serve_app_alone() -> None:
    """What sees everything must be seen by nothing, or every arrow could be drawn through it."""
    for source in product():
        if source.path != "serve_app.py" and not source.path.startswith(f"actors/{WIRING}/"):
            seen = [name for name in imports(source) if f"{name}.".startswith(f"actors.{WIRING}.")]
            assert seen == [], source.path


@over(product())
def test_the_product_imports_nothing_of_devnode(source: Source) -> None:
    """A run starts the embedded chain as a process, as a node is another program."""
    assert [name for name in imports(source) if name.partition(".")[0] == "devnode"] == []


@over(embedded_chain())
def test_devnode_knows_formats_and_the_server_alone(source: Source) -> None:
    """devnode stands in the place of a real node: it shares formats with the product, and none of its rules."""
    ours = [name for name in imports(source) if name.partition(".")[0] in ("actors", "serve_app")]
    allowed = tuple(f"actors.{place}." for place in DEVNODE_IMPORTS)
    assert [name for name in ours if not f"{name}.".startswith(allowed)] == []


def room_complaints(module: str, targets: Iterable[str]) -> list[str]:
    """The imports of a module of a context that lead to a higher room of the same context, or to a sibling room."""
    mine = _room(module)
    if mine is None:
        return []
    context, room, height = mine
    rooms = {target: _room(target) for target in targets}
    return [
        f"{module} imports {target}"
        for target, there in rooms.items()
        if there is not None and there[0] == context and there[1] != room and there[2] >= height
    ]


def _room(module: str) -> tuple[str, str, int] | None:
    """Context, room and height of a module; None outside the rooms."""
    parts = module.split(".")
    if len(parts) < 3 or parts[0] != "actors" or parts[1] not in ROOMS:
        return None
    for height, names in enumerate(ROOMS[parts[1]]):
        if parts[2] in names:
            return parts[1], parts[2], height
    return None


@over(product())
def test_arrows_within_a_context_point_down(source: Source) -> None:
    """actors/README.md: the rooms of a large context are in an order, too."""
    assert room_complaints(source.module, imports(source)) == []


def test_every_room_has_its_height() -> None:
    """A new folder in a context with rooms: say what it may rest on."""
    for context, levels in ROOMS.items():
        found = {path.parent.name for path in (ROOT / "actors" / context).glob("*/__init__.py")}
        assert found == {name for names in levels for name in names}


def devnode_complaints(module: str, targets: Iterable[str]) -> list[str]:
    """The imports that point up or sideways. module: full name, as devnode.rpc.node."""
    here = devnode_level_of(module)
    rooms = {target: room_of(target) for target in targets if target.startswith("devnode.")}
    return [
        f"{module} imports {target}"
        for target, room in rooms.items()
        if room != room_of(module) and devnode_level_of(target) >= here
    ]


def room_of(module: str) -> str:
    """The folder of a module of devnode; "" for the process itself; ports is a room below all."""
    _, _, inside = module.partition(".")
    room = inside.partition(".")[0]
    return room if room == "ports" or (ROOT / "devnode" / room).is_dir() else ""


def devnode_level_of(module: str) -> int:
    room = room_of(module)
    for level, names in enumerate(DEVNODE_LEVELS):
        if room in names:
            return level
    raise AssertionError(f"devnode/{room}: a new folder; give it a level in tests/tidy/test_arrows.py")


@over(embedded_chain())
def test_arrows_within_devnode_point_down(source: Source) -> None:
    """devnode/README.md, "Layout": a folder imports lower ones, and doors never import each other."""
    assert devnode_complaints(source.module, imports(source)) == []


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("devnode.execution.vm", "devnode.chain.chain"),
        ("devnode.chain.chain", "devnode.rpc.node"),
        ("devnode.geyser.hub", "devnode.pubsub.hub"),
        ("devnode.rpc.node", "devnode.app"),
    ],
)
def test_the_rule_of_devnode_finds_what_it_is_for(module: str, target: str) -> None:
    assert devnode_complaints(module, [target])


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("actors.gateway.calls.admission", "actors.gateway.doors.rpc"),
        ("actors.gateway.calls.replies", "actors.gateway.payments.terms"),
        ("actors.launch.assembly.replica", "actors.launch.local_run.run"),
    ],
)
def test_the_rule_of_rooms_finds_what_it_is_for(module: str, target: str) -> None:
    assert room_complaints(module, [target])


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("actors.units", "actors.clock"),
        ("actors.storage.connections", "actors.accounts.api"),
        ("actors.identity.credentials", "actors.upstream.node_health"),
        ("actors.identity.credentials", "actors.accounts.api"),
        ("actors.accounts.core", "actors.gateway.api"),
        ("actors.deposits.usdc.core", "actors.gateway.api"),
        ("actors.gateway.calls.pipeline", "actors.accounts.core"),
        ("actors.gateway.calls.pipeline", "actors.launch.local_run.run"),
    ],
)
def test_the_rule_finds_what_it_is_for(module: str, target: str) -> None:
    """A rule that never says no guards nothing."""
    assert _complaint(module, target)
