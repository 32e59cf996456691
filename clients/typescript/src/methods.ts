// The JSON-RPC methods and their parameters, as GET /openrpc.json of a gateway has them. Made by
// `python -m tests.documents.typescript_methods`, not by hand. Results are the node's own, and not described there.

/** Whole numbers beyond 2^53 are `bigint`. */
export type Whole = number | bigint;

/** Parameters by method, in their order. */
export interface Methods {
  /** Builds an unsigned transaction that sells a token on its bonding curve. Costs 25 credits and 50 basis points of the trade's SOL. */
  executeSell: [
    request: {
      /** public key in base58 */
      mint: string;
      /** base units of the token */
      token_amount: Whole | string;
      slippage_bps?: Whole | null;
      priority_fee_micro_lamports?: Whole | null;
    },
  ];

  /** Builds an unsigned transaction that buys a token on its bonding curve. Costs 25 credits and 50 basis points of the trade's SOL. */
  executeSnipe: [
    request: {
      /** public key in base58 */
      mint: string;
      /** budget in SOL */
      amount_sol: number | string;
      slippage_bps?: Whole | null;
      priority_fee_micro_lamports?: Whole | null;
    },
  ];

  /** Returns one account: lamports, owner, data. Costs 1 credit. */
  getAccountInfo: [
    pubkey: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      encoding?: "base64" | "base58" | "base64+zstd" | "jsonParsed" | "binary" | null;
      /** part of the data */
      dataSlice?: {
        offset: Whole;
        length: Whole;
      } | null;
    } | null,
  ];

  /** Returns one token by its mint: name, symbol, URI, supply, authorities. Costs 5 credits. */
  getAsset: [
    id: string | {
      /** public key in base58 */
      id: string;
      /** what the answer has */
      options?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
      } | null;
      /** what the answer has */
      displayOptions?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
      } | null;
    },
    options?: {
      showFungible?: boolean | null;
      showUnverifiedCollections?: boolean | null;
    } | null,
  ];

  /** Returns up to 1,000 tokens by their mints, in the order asked; null where there is no such mint. Costs 25 credits. */
  getAssetBatch: [
    ids: readonly string[] | {
      ids: readonly string[];
      /** what the answer has */
      options?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
      } | null;
      /** what the answer has */
      displayOptions?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
      } | null;
    },
    options?: {
      showFungible?: boolean | null;
      showUnverifiedCollections?: boolean | null;
    } | null,
  ];

  /** Returns up to 1,000 tokens by their mints, in the order asked; null where there is no such mint. Costs 25 credits. */
  getAssets: [
    ids: readonly string[] | {
      ids: readonly string[];
      /** what the answer has */
      options?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
      } | null;
      /** what the answer has */
      displayOptions?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
      } | null;
    },
    options?: {
      showFungible?: boolean | null;
      showUnverifiedCollections?: boolean | null;
    } | null,
  ];

  /** Lists the tokens of one owner with their metadata, as of finalized where no commitment is given. Costs 25 credits. */
  getAssetsByOwner: [
    owner: string | {
      /** public key in base58 */
      ownerAddress?: string | null;
      /** public key in base58 */
      owner_address?: string | null;
      /** public key in base58 */
      owner?: string | null;
      page?: Whole | null;
      limit?: Whole | null;
      /** public key in base58 */
      cursor?: string | null;
      /** public key in base58 */
      before?: string | null;
      /** public key in base58 */
      after?: string | null;
      /** order of the assets */
      sortBy?: {
        sortBy?: "id" | "none" | null;
        sortDirection?: "asc" | "desc" | null;
      } | null;
      /** what the answer has */
      options?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
        showNativeBalance?: boolean | null;
        showZeroBalance?: boolean | null;
        showGrandTotal?: boolean | null;
      } | null;
      /** what the answer has */
      displayOptions?: {
        showFungible?: boolean | null;
        showUnverifiedCollections?: boolean | null;
        showNativeBalance?: boolean | null;
        showZeroBalance?: boolean | null;
        showGrandTotal?: boolean | null;
      } | null;
      /** processed, confirmed or finalized */
      commitment?: string | null;
    },
  ];

  /** Returns the lamports of one account. Costs 1 credit. */
  getBalance: [
    pubkey: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns one block with its transactions. Costs 25 credits. */
  getBlock: [
    slot: Whole,
    configuration?: {
      /** confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      encoding?: "json" | "jsonParsed" | "base64" | "base58" | "binary" | null;
      /** highest transaction version */
      maxSupportedTransactionVersion?: Whole | null;
      transactionDetails?: "full" | "accounts" | "signatures" | "none" | null;
      rewards?: boolean | null;
    } | null,
  ];

  /** Returns the stake that voted on a block. Costs 1 credit. */
  getBlockCommitment: [slot: Whole];

  /** Returns the current block height. Costs 1 credit. */
  getBlockHeight: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns how many blocks each leader made. Costs 1 credit. */
  getBlockProduction: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      /** public key in base58 */
      identity?: string | null;
      /** slots */
      range?: {
        firstSlot: Whole;
        lastSlot?: Whole | null;
      } | null;
    } | null,
  ];

  /** Returns the time of a block in Unix seconds. Costs 1 credit. */
  getBlockTime: [slot: Whole];

  /** Lists the slots that have a block, from a first to a last slot. Costs 25 credits. */
  getBlocks: [
    start_slot: Whole,
    end_slot?: unknown,
    configuration?: {
      /** confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Lists a number of slots that have a block, from a first slot. Costs 25 credits. */
  getBlocksWithLimit: [
    start_slot: Whole,
    limit: Whole,
    configuration?: {
      /** confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      /** highest transaction version */
      maxSupportedTransactionVersion?: Whole | null;
    } | null,
  ];

  /** Lists the nodes of the cluster. Costs 5 credits. */
  getClusterNodes: [];

  /** Returns the current epoch, slot and block height. Costs 1 credit. */
  getEpochInfo: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns how slots divide into epochs. Costs 1 credit. */
  getEpochSchedule: [];

  /** Returns the fee of a message in lamports. Costs 1 credit. */
  getFeeForMessage: [
    message: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns the oldest slot whose block the node still has. Costs 1 credit. */
  getFirstAvailableBlock: [];

  /** Returns the hash that names the chain. Costs 1 credit. */
  getGenesisHash: [];

  /** Tells whether the node keeps up with the chain. Costs 1 credit. */
  getHealth: [];

  /** Returns the slots of the node's newest snapshots. Costs 1 credit. */
  getHighestSnapshotSlot: [];

  /** Returns the node's own public key. Costs 1 credit. */
  getIdentity: [];

  /** Returns the parameters of inflation. Costs 1 credit. */
  getInflationGovernor: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
    } | null,
  ];

  /** Returns the inflation of the current epoch. Costs 1 credit. */
  getInflationRate: [];

  /** Returns a blockhash to sign with, and the last block height at which it is valid. Costs 1 credit. */
  getLatestBlockhash: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns which validator leads which slots of an epoch. Costs 1 credit. */
  getLeaderSchedule: [
    slot?: unknown,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      /** public key in base58 */
      identity?: string | null;
    } | null,
  ];

  /** Returns the highest slot that the node retransmitted. Costs 1 credit. */
  getMaxRetransmitSlot: [];

  /** Returns the highest slot of which the node has a shred. Costs 1 credit. */
  getMaxShredInsertSlot: [];

  /** Returns the lamports that an account of this many bytes needs. Costs 1 credit. */
  getMinimumBalanceForRentExemption: [
    data_length: Whole,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
    } | null,
  ];

  /** Returns up to 100 accounts, null where there is none. Costs 1 credit. */
  getMultipleAccounts: [
    pubkeys: readonly string[],
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      encoding?: "base64" | "base58" | "base64+zstd" | "jsonParsed" | "binary" | null;
      /** part of the data */
      dataSlice?: {
        offset: Whole;
        length: Whole;
      } | null;
    } | null,
  ];

  /** Estimates a priority fee for accounts, or for a transaction. Costs 1 credit. */
  getPriorityFeeEstimate: [
    request?: {
      transaction?: string | null;
      accountKeys?: readonly string[] | null;
      /** options */
      options?: {
        priorityLevel?: "Min" | "Low" | "Medium" | "High" | "VeryHigh" | "UnsafeMax" | "Default" | null;
        includeAllPriorityFeeLevels?: boolean | null;
        recommended?: boolean | null;
        transactionEncoding?: "base58" | "base64" | null;
      } | null;
    } | null,
  ];

  /** Returns transactions and slots of recent minutes. Costs 1 credit. */
  getRecentPerformanceSamples: [limit?: Whole | null];

  /** Returns the priority fees of recent slots. Costs 1 credit. */
  getRecentPrioritizationFees: [pubkeys?: readonly string[] | null];

  /** Returns the outcome of an earlier sendAndConfirm of the same account. Costs no credits. */
  getSendStatus: [signature: string];

  /** Returns what became of up to 256 transactions. Costs 1 credit. */
  getSignatureStatuses: [
    signatures: readonly string[],
    configuration?: {
      searchTransactionHistory?: boolean | null;
    } | null,
  ];

  /** Lists the transactions of an address, newest first. Costs 5 credits. */
  getSignaturesForAddress: [
    pubkey: string,
    configuration?: {
      /** confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      limit?: Whole | null;
      /** signature in base58 */
      before?: string | null;
      /** signature in base58 */
      until?: string | null;
    } | null,
  ];

  /** Returns the newest slot. Costs 1 credit. */
  getSlot: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns the leader of the newest slot. Costs 1 credit. */
  getSlotLeader: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Lists the leaders of slots, from a first slot. Costs 1 credit. */
  getSlotLeaders: [start_slot: Whole, limit: Whole];

  /** Returns the least stake that can be delegated, in lamports. Costs 1 credit. */
  getStakeMinimumDelegation: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns the balance of one token account. Costs 1 credit. */
  getTokenAccountBalance: [
    pubkey: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Lists the token accounts of one owner, of all its mints or of one. Costs 25 credits. */
  getTokenAccounts: [
    request: {
      /** public key in base58 */
      owner?: string | null;
      /** public key in base58 */
      mint?: string | null;
      page?: Whole | null;
      limit?: Whole | null;
      /** public key in base58 */
      cursor?: string | null;
      /** public key in base58 */
      before?: string | null;
      /** public key in base58 */
      after?: string | null;
      /** what the answer has */
      options?: {
        showZeroBalance?: boolean | null;
      } | null;
    },
  ];

  /** Returns the token accounts of one owner, by mint or by token program. Costs 25 credits. */
  getTokenAccountsByOwner: [
    owner: string,
    filter: {
      /** public key in base58 */
      mint?: string | null;
      /** public key in base58 */
      programId?: string | null;
    },
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      encoding?: "base64" | "base58" | "base64+zstd" | "jsonParsed" | "binary" | null;
      /** part of the data */
      dataSlice?: {
        offset: Whole;
        length: Whole;
      } | null;
    } | null,
  ];

  /** Returns the supply of one token. Costs 1 credit. */
  getTokenSupply: [
    pubkey: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns one confirmed transaction. Costs 5 credits. */
  getTransaction: [
    signature: string,
    configuration?: {
      /** confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      encoding?: "json" | "jsonParsed" | "base64" | "base58" | "binary" | null;
      /** highest transaction version */
      maxSupportedTransactionVersion?: Whole | null;
    } | null,
  ];

  /** Returns the number of transactions of the chain. Costs 1 credit. */
  getTransactionCount: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Lists the transactions of an address with transfers, programs and a sentence about each. Costs 25 credits. */
  getTransactionHistory: [
    address: string,
    options?: {
      limit?: Whole | null;
      /** signature in base58 */
      before?: string | null;
      /** signature in base58 */
      until?: string | null;
      /** confirmed or finalized */
      commitment?: string | null;
    } | null,
  ];

  /** Returns the software version of the node. Costs 1 credit. */
  getVersion: [];

  /** Returns the validators' vote accounts, current and delinquent. Costs 1 credit. */
  getVoteAccounts: [
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      /** public key in base58 */
      votePubkey?: string | null;
      keepUnstakedDelinquents?: boolean | null;
      delinquentSlotDistance?: Whole | null;
    } | null,
  ];

  /** Tells whether a blockhash can still be used. Costs 1 credit. */
  isBlockhashValid: [
    blockhash: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Returns the oldest slot of which the node has anything. Costs 1 credit. */
  minimumLedgerSlot: [];

  /** Returns the OpenRPC document of this service. Costs no credits. */
  "rpc.discover": [];

  /** Sends a signed transaction over every path at once, and returns when its outcome is known. Costs 50 credits if it lands, else 2. */
  sendAndConfirm: [
    transaction: string,
    options?: {
      encoding?: "base58" | "base64" | null;
      skipPreflight?: boolean | null;
    } | null,
  ];

  /** Sends up to 5 signed transactions, one of which tips, to the block engine as one bundle. Costs 10 credits. */
  sendBundle: [
    transactions: readonly string[],
    options?: {
      encoding?: "base58" | "base64" | null;
    } | null,
  ];

  /** Sends a signed transaction, on request after a simulation, and returns its signature. Costs 2 credits. */
  sendSmartTransaction: [
    transaction: string,
    options?: {
      simulate?: boolean | null;
      priority_fee_urgency?: "low" | "medium" | "high" | "critical" | null;
    } | null,
  ];

  /** Sends a signed transaction to the chain, and returns its signature at once. Costs 2 credits. */
  sendTransaction: [
    transaction: string,
    configuration?: {
      encoding?: "base58" | "base64" | null;
      skipPreflight?: boolean | null;
      /** processed, confirmed or finalized */
      preflightCommitment?: string | null;
      maxRetries?: Whole | null;
      minContextSlot?: Whole | null;
    } | null,
  ];

  /** Executes up to 20 transactions in order without sending them. Costs 25 credits. */
  simulateBundle: [
    bundle: {
      transactions: readonly string[];
    },
    configuration?: Readonly<Record<string, unknown>> | null,
  ];

  /** Executes a transaction without sending it. Costs 5 credits. */
  simulateTransaction: [
    transaction: string,
    configuration?: {
      /** processed, confirmed or finalized */
      commitment?: string | null;
      minContextSlot?: Whole | null;
      encoding?: "base58" | "base64" | null;
      sigVerify?: boolean | null;
      replaceRecentBlockhash?: boolean | null;
      innerInstructions?: boolean | null;
      /** highest transaction version */
      maxSupportedTransactionVersion?: Whole | null;
    } | null,
  ];

  /** Suggests a priority fee in micro-lamports for one compute unit. Costs 5 credits. */
  suggestPriorityFee: [
    request?: "low" | "medium" | "high" | "critical" | {
      urgency?: "low" | "medium" | "high" | "critical" | null;
      accounts?: readonly string[] | null;
    },
  ];
}

export type MethodName = keyof Methods;
