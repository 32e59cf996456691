"""The documentation of each JSON-RPC method: its purpose and its parameters.

Implements: interface, "Method classes and credits" and the sections of single methods. MCP tools, the
OpenRPC document and the reference page are made from this table and actors/methods/catalog.py, never by hand.
Pure data. methods/rules.py checks parameters; a schema here admits whatever those rules admit, and may admit
more.
"""

from types import MappingProxyType

from actors.methods.schemas import (
    ACCOUNT,
    BLOCKHASH,
    BOOLEAN,
    COMMITMENT,
    CONTEXT,
    EXAMPLE_KEY,
    FROM_CONFIRMED,
    KEY,
    LATER,
    LEVEL,
    PUBKEY,
    SIGNATURE,
    SIGNED,
    SLOT,
    STRING,
    TRANSACTIONS,
    UNSIGNED,
    URGENCY,
    VERSION,
    MethodDocument,
    Parameter,
    an_object,
    choice,
    config,
    in_context,
    list_of,
    needed,
    of_key,
    plain,
)

EXAMPLE_SIGNATURE = "1" * 64  # The base58 text of 64 zero bytes.
_EXAMPLE_BLOCKHASH = "1" * 32
_EXAMPLE_MESSAGE = (
    "AQABAgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAEBAQAA"
)

_STATE = {
    "getAccountInfo": of_key("Returns one account: lamports, owner, data.", **ACCOUNT),
    "getBalance": of_key("Returns the lamports of one account."),
    "getMultipleAccounts": MethodDocument(
        "Returns up to 100 accounts, null where there is none.",
        (needed("pubkeys", list_of(PUBKEY, 100)), config(**ACCOUNT)),
        ([EXAMPLE_KEY],),
    ),
    "getTokenAccountBalance": of_key("Returns the balance of one token account."),
    "getTokenSupply": of_key("Returns the supply of one token."),
    "getTokenAccountsByOwner": MethodDocument(
        "Returns the token accounts of one owner, by mint or by token program.",
        (
            needed("owner", PUBKEY),
            needed("filter", an_object("either the mint or the token program", mint=PUBKEY, programId=PUBKEY)),
            config(**ACCOUNT),
        ),
        (EXAMPLE_KEY, {"mint": EXAMPLE_KEY}),
    ),
    "getMinimumBalanceForRentExemption": MethodDocument(
        "Returns the lamports that an account of this many bytes needs.",
        (needed("data_length", {**UNSIGNED, "maximum": 10_485_760}), config(commitment=COMMITMENT)),
        (165,),
    ),
    "getStakeMinimumDelegation": in_context("Returns the least stake that can be delegated, in lamports."),
    "getVoteAccounts": MethodDocument(
        "Returns the validators' vote accounts, current and delinquent.",
        (
            config(
                commitment=COMMITMENT,
                votePubkey=PUBKEY,
                keepUnstakedDelinquents=BOOLEAN,
                delinquentSlotDistance=UNSIGNED,
            ),
        ),
    ),
}

_BLOCKS = {
    "getBlock": MethodDocument(
        "Returns one block with its transactions.",
        (
            SLOT,
            config(
                **TRANSACTIONS,
                transactionDetails=choice("full", "accounts", "signatures", "none"),
                rewards=BOOLEAN,
            ),
        ),
        (1, {"transactionDetails": "signatures"}),
    ),
    "getBlockCommitment": MethodDocument("Returns the stake that voted on a block.", (SLOT,), (1,)),
    "getBlockHeight": in_context("Returns the current block height."),
    "getBlockProduction": MethodDocument(
        "Returns how many blocks each leader made.",
        (
            config(
                commitment=COMMITMENT,
                identity=PUBKEY,
                range=an_object("slots", ("firstSlot",), firstSlot=UNSIGNED, lastSlot=UNSIGNED),
            ),
        ),
    ),
    "getBlockTime": MethodDocument("Returns the time of a block in Unix seconds.", (SLOT,), (1,)),
    "getBlocks": MethodDocument(
        "Lists the slots that have a block, from a first to a last slot.",
        (
            needed("start_slot", UNSIGNED),
            Parameter("end_slot", {"description": "last slot; or the configuration"}),
            config(**LATER),
        ),
        (1, 10),
    ),
    "getBlocksWithLimit": MethodDocument(
        "Lists a number of slots that have a block, from a first slot.",
        (
            needed("start_slot", UNSIGNED),
            needed("limit", {**UNSIGNED, "maximum": 500_000}),
            config(**LATER, maxSupportedTransactionVersion=VERSION),
        ),
        (1, 10),
    ),
    "getFirstAvailableBlock": plain("Returns the oldest slot whose block the node still has."),
    "minimumLedgerSlot": plain("Returns the oldest slot of which the node has anything."),
    "getHighestSnapshotSlot": plain("Returns the slots of the node's newest snapshots."),
    "getMaxRetransmitSlot": plain("Returns the highest slot that the node retransmitted."),
    "getMaxShredInsertSlot": plain("Returns the highest slot of which the node has a shred."),
    "getRecentPerformanceSamples": MethodDocument(
        "Returns transactions and slots of recent minutes.", (Parameter("limit", {**UNSIGNED, "maximum": 720}),), (5,)
    ),
    "getLatestBlockhash": in_context(
        "Returns a blockhash to sign with, and the last block height at which it is valid."
    ),
    "isBlockhashValid": MethodDocument(
        "Tells whether a blockhash can still be used.",
        (needed("blockhash", BLOCKHASH), config(**CONTEXT)),
        (_EXAMPLE_BLOCKHASH,),
    ),
}

_CLUSTER = {
    "getClusterNodes": plain("Lists the nodes of the cluster."),
    "getEpochInfo": in_context("Returns the current epoch, slot and block height."),
    "getEpochSchedule": plain("Returns how slots divide into epochs."),
    "getGenesisHash": plain("Returns the hash that names the chain."),
    "getHealth": plain("Tells whether the node keeps up with the chain."),
    "getIdentity": plain("Returns the node's own public key."),
    "getInflationGovernor": MethodDocument("Returns the parameters of inflation.", (config(commitment=COMMITMENT),)),
    "getInflationRate": plain("Returns the inflation of the current epoch."),
    "getLeaderSchedule": MethodDocument(
        "Returns which validator leads which slots of an epoch.",
        (
            Parameter("slot", {"description": "slot of the epoch; null: the current one; or the configuration"}),
            config(commitment=COMMITMENT, identity=PUBKEY),
        ),
    ),
    "getSlot": in_context("Returns the newest slot."),
    "getSlotLeader": in_context("Returns the leader of the newest slot."),
    "getSlotLeaders": MethodDocument(
        "Lists the leaders of slots, from a first slot.",
        (needed("start_slot", UNSIGNED), needed("limit", {**UNSIGNED, "maximum": 5_000})),
        (1, 4),
    ),
    "getTransactionCount": in_context("Returns the number of transactions of the chain."),
    "getVersion": plain("Returns the software version of the node."),
}

_HISTORY = {
    "getSignatureStatuses": MethodDocument(
        "Returns what became of up to 256 transactions.",
        (needed("signatures", list_of(SIGNATURE, 256)), config(searchTransactionHistory=BOOLEAN)),
        ([EXAMPLE_SIGNATURE],),
    ),
    "getSignaturesForAddress": MethodDocument(
        "Lists the transactions of an address, newest first.",
        (
            KEY,
            config(
                **LATER,
                limit={"type": "integer", "minimum": 1, "maximum": 1_000},
                before=SIGNATURE,
                until=SIGNATURE,
            ),
        ),
        (EXAMPLE_KEY, {"limit": 10}),
    ),
    "getTransaction": MethodDocument(
        "Returns one confirmed transaction.",
        (needed("signature", SIGNATURE), config(**TRANSACTIONS)),
        (EXAMPLE_SIGNATURE,),
    ),
    "getTransactionHistory": MethodDocument(
        "Lists the transactions of an address with transfers, programs and a sentence about each.",
        (
            needed("address", PUBKEY),
            Parameter(
                "options",
                an_object(
                    "page of the history",
                    limit={"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                    before=SIGNATURE,
                    until=SIGNATURE,
                    commitment=FROM_CONFIRMED,
                ),
            ),
        ),
        (EXAMPLE_KEY, {"limit": 5}),
    ),
    "getAssetsByOwner": MethodDocument(
        "Lists the tokens of one owner, as of finalized where no commitment is given.",
        (
            needed(
                "owner",
                {"description": "public key in base58, or an object with ownerAddress, page, limit and commitment"},
            ),
        ),
        (EXAMPLE_KEY,),
    ),
}

_FEES = {
    "getFeeForMessage": MethodDocument(
        "Returns the fee of a message in lamports.",
        (needed("message", {"type": "string", "description": "message in base64"}), config(**CONTEXT)),
        (_EXAMPLE_MESSAGE,),
    ),
    "getRecentPrioritizationFees": MethodDocument(
        "Returns the priority fees of recent slots.", (Parameter("pubkeys", list_of(PUBKEY, 128)),), ([],)
    ),
    "suggestPriorityFee": MethodDocument(
        "Suggests a priority fee in micro-lamports for one compute unit.",
        (
            Parameter(
                "request",
                {
                    "description": "an urgency (low, medium, high, critical), or an object with urgency and accounts",
                    "anyOf": [
                        dict(URGENCY),
                        dict(an_object("request", urgency=URGENCY, accounts=list_of(PUBKEY, 128))),
                    ],
                },
            ),
        ),
        ({"urgency": "high"},),
    ),
    "getPriorityFeeEstimate": MethodDocument(
        "Estimates a priority fee for accounts, or for a transaction.",
        (
            Parameter(
                "request",
                an_object(
                    "accountKeys or transaction",
                    transaction=STRING,
                    accountKeys=list_of(PUBKEY, 128),
                    options=an_object("options", priorityLevel=LEVEL, includeAllPriorityFeeLevels=BOOLEAN),
                ),
            ),
        ),
        ({"accountKeys": [EXAMPLE_KEY], "options": {"priorityLevel": "High"}},),
    ),
}

_SENDING = {
    "sendTransaction": MethodDocument(
        "Sends a signed transaction to the chain, and returns its signature at once.",
        (
            SIGNED,
            config(
                encoding=choice("base58", "base64"),
                skipPreflight=BOOLEAN,
                preflightCommitment=COMMITMENT,
                maxRetries=UNSIGNED,
                minContextSlot=UNSIGNED,
            ),
        ),
        None,
    ),
    "sendSmartTransaction": MethodDocument(
        "Sends a signed transaction, on request after a simulation, and returns its signature.",
        (SIGNED, Parameter("options", an_object("options", simulate=BOOLEAN, priority_fee_urgency=URGENCY))),
        None,
    ),
    "sendAndConfirm": MethodDocument(
        "Sends a signed transaction over every path at once, and returns when its outcome is known.",
        (
            SIGNED,
            Parameter("options", an_object("options", encoding=choice("base58", "base64"), skipPreflight=BOOLEAN)),
        ),
        None,
    ),
    "getSendStatus": MethodDocument(
        "Returns the outcome of an earlier sendAndConfirm of the same account.",
        (needed("signature", SIGNATURE),),
        (EXAMPLE_SIGNATURE,),
    ),
    "simulateTransaction": MethodDocument(
        "Executes a transaction without sending it.",
        (
            needed("transaction", {"type": "string", "description": "transaction in base64 or base58"}),
            config(
                **CONTEXT,
                encoding=choice("base58", "base64"),
                sigVerify=BOOLEAN,
                replaceRecentBlockhash=BOOLEAN,
                innerInstructions=BOOLEAN,
                maxSupportedTransactionVersion=VERSION,
            ),
        ),
        None,
    ),
    "simulateBundle": MethodDocument(
        "Executes up to 20 transactions in order without sending them.",
        (
            needed("bundle", an_object("the bundle", ("transactions",), transactions=list_of(STRING, 20))),
            Parameter("configuration", an_object("options of the node")),
        ),
        None,
    ),
    "sendBundle": MethodDocument(
        "Sends up to 5 signed transactions, one of which tips, to the block engine as one bundle.",
        (
            needed("transactions", list_of({"type": "string", "description": "signed transaction"}, 5)),
            Parameter("options", an_object("options", encoding=choice("base58", "base64"))),
        ),
        None,
    ),
    "executeSnipe": MethodDocument(
        "Builds an unsigned transaction that buys a token on its bonding curve.",
        (
            needed(
                "request",
                an_object(
                    "the purchase",
                    ("mint", "amount_sol"),
                    mint=PUBKEY,
                    amount_sol={"type": ["number", "string"], "description": "budget in SOL"},
                    slippage_bps={"type": "integer", "minimum": 0, "maximum": 10_000, "default": 500},
                    priority_fee_micro_lamports={**UNSIGNED, "default": 100_000},
                ),
            ),
        ),
        ({"mint": EXAMPLE_KEY, "amount_sol": 0.1},),
    ),
    "executeSell": MethodDocument(
        "Builds an unsigned transaction that sells a token on its bonding curve.",
        (
            needed(
                "request",
                an_object(
                    "the sale",
                    ("mint", "token_amount"),
                    mint=PUBKEY,
                    token_amount={"type": ["integer", "string"], "description": "base units of the token"},
                    slippage_bps={"type": "integer", "minimum": 0, "maximum": 10_000, "default": 500},
                    priority_fee_micro_lamports={**UNSIGNED, "default": 100_000},
                ),
            ),
        ),
        ({"mint": EXAMPLE_KEY, "token_amount": 1_000_000},),
    ),
}

_SERVICE = {"rpc.discover": plain("Returns the OpenRPC document of this service.")}

DOCUMENTS: MappingProxyType[str, MethodDocument] = MappingProxyType(
    {**_STATE, **_BLOCKS, **_CLUSTER, **_HISTORY, **_FEES, **_SENDING, **_SERVICE}
)
