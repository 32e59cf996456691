"""Rules of alerts about credits, deposits, sends.

Implements: decisions, "The operators' page" (alerts that are on). Pure data. Its test compares it with
deploy/observability/prometheus-rules.yaml: the same sentences, the same numbers.
"""

from actors.operators.rules import Rule, RuleKind, Severity

RULES = (
    Rule(
        name="LedgerNotCommitting",
        severity=Severity.CRITICAL,
        kind=RuleKind.EQUAL,
        figures=("ledger_committing",),
        summary="The ledger does not commit.",
        means=(
            "A replica finds that fewer than half of the owners of accounts commit to PostgreSQL. Paid calls are "
            "refused with 503, because they could not be recorded; nothing is lost."
        ),
        remedy=(
            "Look at PostgreSQL first: is it up, is its disk full, are all connections taken? The logs account-"
            "shard-*.jsonl name the error. When it answers again, owners go on by themselves."
        ),
    ),
    Rule(
        name="AccountOwnersAway",
        severity=Severity.CRITICAL,
        kind=RuleKind.ABOVE,
        figures=("account_owners_away",),
        summary="{value} owners of accounts do not answer.",
        means=(
            "Calls of the accounts of these owners get 503; all other accounts are served. Ray starts a lost owner "
            "again within seconds, so one minute means that it cannot start."
        ),
        remedy=(
            "`ledger-gateway cluster status` names the owner and its machine; its log says why it cannot start. A "
            "lost machine: add one, or let Ray place the owner on another."
        ),
    ),
    Rule(
        name="CommitsFail",
        severity=Severity.WARNING,
        kind=RuleKind.GROWN,
        figures=("store_failures",),
        seconds=300,
        scope="each",
        summary="{process} had group commits that the database failed.",
        means=(
            "The calls of these groups got 503. This owner forgets what was not written, and admits no paid call "
            "until it has taken the next epoch. Single failures follow a restart of PostgreSQL."
        ),
        remedy=(
            "If it goes on, read the log of this owner and that of PostgreSQL (connections, locks, disk). Run both "
            "audits afterwards (actors/launch/README.md, Audits)."
        ),
    ),
    Rule(
        name="EntriesWait",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("entries_waiting",),
        limit=1000,
        scope="each",
        summary="{value} ledger entries of {process} wait for the next commit.",
        means="This owner decides faster than it commits, and its callers wait.",
        remedy=(
            "As for slow commits. If commits are quick, there is more work than one owner can do: `ledger-gateway "
            "cluster scale owners N`."
        ),
    ),
    Rule(
        name="HoldsStay",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("oldest_hold_seconds",),
        limit=660,
        scope="each",
        summary="A hold of {process} has been open for {value} s.",
        means=(
            "A hold ends with its call, or by time (`accounts.hold_seconds`, ten minutes at most). Its credits stay "
            "set aside as long as the owner does not commit."
        ),
        remedy="As for a ledger that does not commit. Holds end by themselves, free, once it does.",
    ),
    Rule(
        name="StatementsBehind",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("unsealed_seconds",),
        limit=600,
        summary="The ledger has had unsigned entries for {value} s.",
        means=(
            "Calls are served and charged, and customers get no receipts of them. After a start of an owner with "
            "millions of accounts this takes some minutes."
        ),
        remedy=(
            "Look at the owner's log for the reason: the database, a key that cannot be opened, a file of roots that "
            "cannot be written (LEDGER_ACCOUNTS__ROOTS_DIR)."
        ),
    ),
    Rule(
        name="ForeignStatements",
        severity=Severity.CRITICAL,
        kind=RuleKind.ABOVE,
        figures=("refused_series", "unproven_ledger_keys"),
        scope="each",
        summary="{process} has found keys or statements in the database that it did not make.",
        means=(
            "Somebody has written into the database with more rights than they should have, or the cluster's secret "
            "was changed. Calls are served and charged; customers may get no new receipts."
        ),
        remedy='`ledger-gateway ledger-key show`, and "Foreign keys and statements" in actors/launch/README.md.',
    ),
    Rule(
        name="DepositsBehind",
        severity=Severity.CRITICAL,
        kind=RuleKind.ABOVE,
        figures=("deposits_behind_seconds",),
        limit=300,
        summary="For {value} s the deposit watcher has not read every finalized transfer.",
        means=(
            "Customers have paid and have no credits yet. Nothing is lost: the watcher goes on from its cursor and "
            "credits each transfer once."
        ),
        remedy=(
            "`ledger-gateway deposits status` has the fault of the latest round. Most often the node is away or lags;"
            " if it has no history of these slots, configure one that has, then `deposits explain SIGNATURE`."
        ),
    ),
    Rule(
        name="DepositsWait",
        severity=Severity.WARNING,
        kind=RuleKind.STAYING,
        figures=("deposits_waiting",),
        seconds=600,
        summary="Transfers are in the inbox of the deposit watcher for 10 minutes.",
        means=(
            "They were seen on the chain and are not credited yet: the node does not give their transactions, or the "
            "owner of an account does not answer."
        ),
        remedy="`ledger-gateway deposits status`, and the log deposit-watcher.jsonl. Look for owners that are away.",
    ),
    Rule(
        name="DepositsNeedYou",
        severity=Severity.INFO,
        kind=RuleKind.WAITING,
        summary="A transfer arrived that only a person can assign.",
        means=(
            "It is below the minimum, came from a program or a multisig, or its wallet is not known. It is on the "
            "chain, and credited to nobody."
        ),
        remedy="`ledger-gateway deposits list`, then `deposits assign SIGNATURE PUBKEY --reason TEXT`.",
    ),
    Rule(
        name="DepositWatcherAway",
        severity=Severity.CRITICAL,
        kind=RuleKind.ABSENT,
        figures=("deposits_behind_seconds",),
        summary="No deposit watcher reports.",
        means=(
            "No transfer is credited while it is away; none is lost. A service without a deposit wallet has no "
            "watcher: remove this rule there."
        ),
        remedy="`ledger-gateway cluster status`; the log deposit-watcher.jsonl says why it cannot start.",
    ),
    Rule(
        name="ClocksDisagree",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("clocks_disagree",),
        summary="The clock of an owner of accounts and that of the database differ.",
        means="They differ by more than 10 s, so no credits expire, in the customers' favour. Calls go on.",
        remedy=(
            "Set the clocks (chrony or systemd-timesyncd on every machine and on the database's). It ends ten minutes"
            " after the clocks agree."
        ),
    ),
    Rule(
        name="SponsorBalanceLow",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("sponsor_balance_low",),
        summary="The sponsor of x402 payments has little SOL.",
        means=(
            "It pays the network fees of x402 payments. When it has none, new customers cannot pay by x402; calls go "
            "on."
        ),
        remedy="`ledger-gateway sponsor show` prints its address; send SOL to it.",
    ),
    Rule(
        name="RaceWindowsStay",
        severity=Severity.CRITICAL,
        kind=RuleKind.ABOVE,
        figures=("send_oldest_window_seconds",),
        limit=60,
        scope="each",
        summary="A send of {process} has been open for {value} s.",
        means=("A window lasts 24 s at most. The credits of this send stay held, and its caller has heard `unknown`."),
        remedy=(
            "Does the node answer (nodes_away), does PostgreSQL? Read the log of this racer. A restart of the racer "
            "is safe: it finds open races in PostgreSQL and proves each."
        ),
    ),
    Rule(
        name="RacesUnproven",
        severity=Severity.WARNING,
        kind=RuleKind.GROWN,
        figures=("send_races",),
        seconds=900,
        summary="A send ended without a proof of its outcome.",
        means=(
            "For a day the node could not say whether the transaction is on the chain. It is charged its base price "
            "if it was broadcast, else nothing."
        ),
        remedy=(
            "Look up the signature on another node. Configure a node with the role `archive` if this one forgets "
            "statuses too soon."
        ),
    ),
    Rule(
        name="PriceListUnknown",
        severity=Severity.WARNING,
        kind=RuleKind.ABOVE,
        figures=("price_lists_unknown",),
        summary="Accounts have {value} price lists that the settings lack.",
        means="These accounts pay the public prices, and are told so everywhere.",
        remedy=(
            "GET /operator/price-lists, or the log of a replica, names the lists. Put them back into `pricing.lists` "
            "and deploy, or give the accounts another list (`ledger-gateway accounts price`)."
        ),
    ),
)
