// Answers of the gateway's own pages. Fields of later versions come through untouched.
// Credits are whole numbers, always. Pure.

export interface Funding {
  asset: string;
  network: string;
  /** For people. */
  network_name?: string;
  deposit_address: string;
  credits_per_usdc: number;
  credit_expiry_days: number;
  credit_expiry_seconds?: number;
  /** Whose the credits of a transfer are. */
  attribution?: string;
}

/** A parcel of credits with an expiry (Unix seconds). */
export interface CreditBatch {
  id: string | number;
  source: string;
  credits: number;
  remaining: number;
  created_at: number;
  expires_at: number;
}

/** What an account spends: null, or missing, where it is not known. expiring: credits that expire before they are spent. */
export interface Runway {
  credits_an_hour: number;
  hours_left: number | null;
  expiring: number;
}

/** GET /account/info. balance: credits. price_list: `public`, or the one that the operator gave to the account. */
export interface Account {
  pubkey: string;
  balance: number;
  deposit_address: string;
  funding: Funding;
  status: string;
  total_consumed_credits: number;
  created_at: number;
  last_deposit: Record<string, unknown> | null;
  credit_batches: CreditBatch[];
  credits_of_later_batches?: number;
  price_list?: string;
  runway?: Runway | null;
}

/** What a named key may do; null and missing: no limit of this kind. expires_at: ISO 8601 or Unix seconds. */
export interface KeyLimits {
  credits_a_day?: number | null;
  credits_total?: number | null;
  requests_per_second?: number | null;
  methods?: readonly string[] | null;
  origins?: readonly string[] | null;
  addresses?: readonly string[] | null;
  expires_at?: number | string | null;
}

/** What a child of a named key may do; missing: no limit of this kind. expires_at: Unix seconds. */
export interface ChildLimits {
  credits_a_day?: number;
  credits_total?: number;
  requests_per_second?: number;
  methods?: readonly string[];
  origins?: readonly string[];
  addresses?: readonly string[];
  expires_at?: number;
}

/** A key with limits of its own. spent_today: in this day of UTC. held: by calls under way, which count as spent until
 * they end. Times are ISO 8601. */
export interface NamedKey {
  id: number;
  name: string;
  prefix: string;
  status: string;
  created_at: string;
  credits_a_day: number | null;
  credits_total: number | null;
  requests_per_second: number | null;
  methods: string[];
  origins: string[];
  addresses: string[];
  expires_at: string | null;
  spent_today: number;
  spent_total: number;
  held: number;
  parent?: number | null;
  former_key_good_until?: string | null;
}

/** api_key: its text, which the gateway tells this once. */
export interface NewKey {
  key: NamedKey;
  api_key: string;
}

/** amount: credits, signed. balance: after the entry. timestamp: ISO 8601, UTC. Of `ledgerEntries` also number: in the
 * account's ledger, from 1; method, outcome, operation: of what it paid for; signature: of the transaction of a deposit or
 * a send; request_id, digest: of the answer; cache: `hit` where it came from the gateway's cache; key: id of the named key
 * that paid. */
export interface LedgerEntry {
  type: string;
  amount: number;
  balance: number;
  description: string;
  timestamp: string;
  number?: number;
  method?: string | null;
  outcome?: string | null;
  operation?: string | null;
  signature?: string | null;
  request_id?: string | null;
  digest?: string | null;
  cache?: string | null;
  key?: number | null;
}

/** One call of the last day (GET /account/calls). id: a place in the log. at: when it ended, ISO 8601, UTC. outcome: `result`,
 * `node_error`, or a constant of the error table. ms: from the whole request to the answer. credits: posted by then. method:
 * null: an unknown method. key: id of the named key that paid. */
export interface LoggedCall {
  id: string;
  at: string;
  method: string | null;
  outcome: string;
  ms: number;
  credits: number;
  request_id: string;
  key?: number | null;
}

/** One charged call of GET /account/history. */
export interface UsageEntry {
  method: string | null;
  credits: number;
  timestamp: string;
}

/** method, hour, day, key: where the question groups by it. key: id of a named key; empty: by no named key. */
export interface UsageRow {
  calls: number;
  credits: number;
  method?: string;
  hour?: string;
  day?: string;
  key?: string;
}

/** GET /account/usage: charged calls of a time, grouped. */
export interface Usage {
  from: string;
  to: string;
  by: string[];
  rows: UsageRow[];
  totals: { calls: number; credits: number };
}

/** A balance, and the id under which `receipt` proves it; null before the first entry. */
export interface BillEnd {
  balance: number;
  number: number;
  hash: string | null;
  receipt: string | null;
}

/** A month of GET /account/bills. Opening and lines make the closing balance, to the credit. */
export interface Bill {
  account: string;
  month: string;
  opening: BillEnd;
  lines: {
    day: string | null;
    type: string;
    method: string | null;
    entries: number;
    credits: number;
    first: number;
    last: number;
    digest: string;
  }[];
  closing: BillEnd;
}

/** The price of one call. exact: false where the price depends on how the call ends. error: it would be refused. */
export interface QuotedCall {
  id?: unknown;
  method?: string | null;
  credits?: number | null;
  exact?: boolean | null;
  reason?: string | null;
  error?: unknown;
}

/** POST /quote: what calls would cost. Nothing is carried out or charged. */
export interface Quote {
  credits: number;
  exact: boolean;
  calls: QuotedCall[];
}

/** POST /account/confirm-deposit. credited_to: other wallets that the deposit was credited to, as they sent the tokens. */
export interface Confirmation {
  credits_added: number;
  new_balance: number;
  already_processed: boolean;
  credited_to?: string[];
}

/** The answer of a bulk look-up. Each item names its address, owner or signature; items of `errors` are free. slot: of all
 * balances; null where they are of several slots. */
export interface Bulk {
  results: Record<string, any>[];
  errors: Record<string, any>[];
  commitment: string;
  slot?: number | null;
}

/** What became of a sendAndConfirm: actors/sends/README.md of the project names all fields. */
export interface SendOutcome {
  signature: string;
  status: string;
  confirmed: boolean;
  [field: string]: unknown;
}

/** wallets: the watched ones, of signals. secret: only after creation, where it is shown once. */
export interface Webhook {
  id: string;
  url: string;
  filter_type: string;
  status: string;
  filter_value?: string | null;
  lifecycle_events?: string[] | null;
  signal_events?: string[] | null;
  wallets?: string[];
  disabled_reason?: string | null;
  created_at?: number | null;
  last_delivery?: Record<string, unknown> | null;
  secret?: string | null;
}
