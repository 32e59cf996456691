"""Rules of alerts about replicas, actors, nodes, streams.

Implements: decisions, "The operators' page" (alerts that are on). Pure data. Its test compares it with
deploy/observability/prometheus-rules.yaml: the same sentences, the same numbers.
"""

from actors.operators.rules import Rule, RuleKind, Severity

RULES = (
    Rule(
        name="NoReplica",
        severity=Severity.CRITICAL,
        kind=RuleKind.ABSENT,
        figures=("health_status",),
        summary="No replica reports to any page.",
        means="Nobody serves calls, or no page is reached.",
        remedy=(
            "Call GET /health through HAProxy. If it answers, look at LEDGER_TELEMETRY__METRICS_HOST and the targets "
            "of Prometheus; if it does not, at `serve status` and the logs gateway-*.jsonl."
        ),
    ),
    Rule(
        name="ActorAway",
        severity=Severity.WARNING,
        kind=RuleKind.SILENT,
        scope="each",
        summary="{process} no longer reports.",
        means=(
            "An actor that reported ten minutes ago has been silent for 30 s at least. After `cluster scale` to a "
            "smaller number this is intended, and ends after ten minutes."
        ),
        remedy=(
            "`ledger-gateway cluster status` shows whether it answers, and where. Its log says why it ended; Ray "
            "starts it again as long as there is a machine for it."
        ),
    ),
    Rule(
        name="MemoryShort",
        severity=Severity.WARNING,
        kind=RuleKind.BELOW,
        figures=("machine_memory_available_ratio",),
        limit=0.05,
        scope="each",
        summary="The machine of {process} has little memory left: {value} of all of it.",
        means=(
            "Below this, the system ends processes. Owners, racers and replicas restart, and calls under way are "
            "lost, free."
        ),
        remedy=(
            "Look for what takes it (`ps -eo rss,args --sort -rss`). Fewer replicas on this machine, smaller queues "
            "and caches (`geyser.queues_bytes_max`, `upstream.cache_bytes_max`), or more memory."
        ),
    ),
    Rule(
        name="HealthStarting",
        severity=Severity.CRITICAL,
        kind=RuleKind.EQUAL,
        figures=("health_status",),
        limit=2,
        scope="each",
        summary="GET /health of {process} says starting (503).",
        means=(
            "No node has answered this replica, or the ledger does not commit for most accounts. It refuses paid calls."
        ),
        remedy="The other alerts name the part: LedgerNotCommitting, NodesAway, RedisAway.",
    ),
    Rule(
        name="HealthDegraded",
        severity=Severity.WARNING,
        kind=RuleKind.EQUAL,
        figures=("health_status",),
        limit=1,
        scope="each",
        summary="GET /health of {process} says degraded.",
        means=(
            "Calls are served, and a part that they need is away: a node, Redis, the block engine, the source of "
            "streams or signals, the stream hub, or owners of accounts."
        ),
        remedy=(
            "Read GET /health, and the alerts beside this one. It ends by itself three good probes after the part is "
            "back."
        ),
    ),
    Rule(
        name="NodesAway",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("nodes_away",),
        scope="each",
        summary="{value} primary nodes fail or lag, as {process} sees it.",
        means="Calls go to the other nodes; without one they get 502 or 504, free.",
        remedy=(
            "Look at the node: does it answer getHealth, how far is its slot behind? One replica alone means the "
            "network of its machine."
        ),
    ),
    Rule(
        name="RedisAway",
        severity=Severity.CRITICAL,
        kind=RuleKind.EQUAL,
        figures=("redis_reachable",),
        scope="each",
        summary="Redis does not answer {process}.",
        means=(
            "Calls signed by a wallet and new sessions get 503, because a replay could not be refused. Calls by API "
            "key go on; signals wait."
        ),
        remedy=(
            'Start Redis again with its append-only file. If its data is lost, see actors/launch/README.md, "What '
            'survives which failure".'
        ),
    ),
    Rule(
        name="BlockEngineAway",
        severity=Severity.WARNING,
        kind=RuleKind.EQUAL,
        figures=("block_engine_reachable",),
        scope="each",
        summary="No block engine answers {process}.",
        means="Bundles get 502, 503 or 504, free. Sends use their other legs.",
        remedy="Look at the status of the block engine; configure a second one (`sends.block_engines`).",
    ),
    Rule(
        name="YellowstoneAway",
        severity=Severity.WARNING,
        kind=RuleKind.EQUAL,
        figures=("yellowstone_reachable",),
        scope="each",
        summary="The source of gRPC streams is down for {process}.",
        means="gRPC streams stand or are refused; classifiers that read it change to blocks.",
        remedy="Look at the Yellowstone plugin of the node, and at LEDGER_UPSTREAM__YELLOWSTONE_URL and its token.",
    ),
    Rule(
        name="StreamHubAway",
        severity=Severity.WARNING,
        kind=RuleKind.EQUAL,
        figures=("stream_hub_reachable",),
        scope="each",
        summary="The stream hub of {machine} does not answer.",
        means="WebSocket subscriptions of this machine's replicas are refused; those of other machines go on.",
        remedy="Its log stream-hub-*.jsonl says why it cannot start. Ray starts it on this machine only.",
    ),
    Rule(
        name="EventLoopHeld",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("event_loop_held_max_seconds",),
        limit=0.1,
        scope="each",
        summary="Work held the event loop of {process} for {value} s.",
        means=(
            "All clients of this process waited for that long. The product holds a loop for 5 ms at most, so some "
            "request does more than it should."
        ),
        remedy=(
            "Compare with the refusals and calls of this process at that time. If it repeats, report it with the log "
            "of the process."
        ),
    ),
    Rule(
        name="EventLoopStalled",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("event_loop_stalled_max_seconds",),
        limit=0.5,
        scope="each",
        summary="{process} waited {value} s for a processor.",
        means="The thread did not work: the machine is too small or too busy, or a call blocks.",
        remedy="Look at the load of the machine. Move other work away, add cores, or run fewer replicas on it.",
    ),
    Rule(
        name="BackgroundCrash",
        severity=Severity.WARNING,
        kind=RuleKind.GROWN,
        figures=("background_crashes",),
        seconds=600,
        scope="each",
        summary="Background work of {process} ended by an error that nobody expected.",
        means=(
            "A fault of the product. Repeated work goes on with its next round; other work of this kind is missing "
            "until the process restarts."
        ),
        remedy=(
            "The log of this process has the error with its traceback. Report it. If a figure of this process stands "
            "still, end the process: Ray starts it again."
        ),
    ),
    Rule(
        name="InternalErrors",
        severity=Severity.WARNING,
        kind=RuleKind.GROWN,
        figures=("refusals",),
        seconds=300,
        scope="each",
        summary="{process} answered with an internal error.",
        means="A fault of the product. The call was not charged.",
        remedy=(
            "Search the log of this process for `failed`: the line has the request's id and a traceback. Report both."
        ),
    ),
    Rule(
        name="RacersFull",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("send_races_under_way",),
        limit=4000,
        scope="each",
        summary="{process} carries {value} sends without an outcome.",
        means="At 5,000 (`sends.open_sends_max`) it refuses new ones.",
        remedy=(
            "More racers (`sends.racers`). If the number grows while few sends arrive, the node does not tell outcomes."
        ),
    ),
    Rule(
        name="SignalsWithoutSource",
        severity=Severity.CRITICAL,
        kind=RuleKind.EQUAL,
        figures=("signals_source",),
        limit=-1,
        scope="each",
        summary="{process} has no source of blocks.",
        means=(
            "Its part of all signals stands, and the others wait for it, because the log is in the order of slots. "
            "Short absences lose nothing."
        ),
        remedy="Look at the node's WebSocket and Yellowstone stream. The log of the classifier has each attempt.",
    ),
    Rule(
        name="SignalsLag",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("signals_lag_slots",),
        limit=150,
        scope="each",
        summary="{process} is {value} slots behind the chain.",
        means="Signals are late by about 0.4 s for each slot.",
        remedy=(
            "If its loop is held or its machine is full: more classifiers (`signals.classifiers`). Else the source or"
            " Redis is slow."
        ),
    ),
    Rule(
        name="SignalsGap",
        severity=Severity.WARNING,
        kind=RuleKind.GROWN,
        figures=("signals_gap_to_slot",),
        seconds=600,
        scope="each",
        summary="{process} told its subscribers a gap.",
        means=(
            "Blocks could not be read, so signals of these slots are missing for all subscribers. They were told from"
            " which slot to which."
        ),
        remedy=(
            "GET /health has the slots and the reason. A node with a longer history, or a second one, prevents it."
        ),
    ),
    Rule(
        name="WebhooksLate",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("webhook_queue_depth",),
        limit=1000,
        also=("webhook_oldest_undelivered_seconds", 600),
        summary="More than 1,000 deliveries wait, the oldest for more than ten minutes.",
        means=(
            "A receiver is away and its retries gather (they go on for most of a day), or the dispatcher cannot follow."
        ),
        remedy=(
            "The dashboard has attempts by result. Many 5xx and no_answer: a receiver. Hardly any attempts: the "
            "dispatcher; read webhook-dispatcher-*.jsonl."
        ),
    ),
)
