// Checks receipts: that entries of an account's ledger are what the gateway has signed, and that one continues another.
// Implements: "Receipts" of the README and docs/decisions/signed-roots.md of the project, by the rules of
// ledger_gateway/receipts.py. Needs the receipts and the gateway's published keys, and asks nobody.

import { isFields } from "./answers.js";
import { areEqual, type Bytes, concat, fromBase58, fromHex, isSignedBy, sha256, toBase64, toHex, utf8 } from "./bytes.js";

export const TYPES = ["deposit", "bonus", "debit", "refund", "adjustment", "expiry", "fact"] as const;
export const OUTCOMES = ["answered", "upstream_error", "client_gone", "released"] as const;
const STATEMENT = new RegExp(
  "^ledger-gateway statement 1\\nseries \\d+\\nnumber \\d+\\nat_ms (\\d+)\\nprevious [0-9a-f]{64}\\naccounts (\\d+)\\n" +
    "entries \\d+\\nroot ([0-9a-f]{64})\\n$",
);
const KEY = /\|[0-9]{1,9}$/;
const LAST_MAX = 1n << 63n;

/** A receipt does not hold; one sentence that says what does not. */
export class NotProven extends Error {
  override get name(): string {
    return "NotProven";
  }
}

type Whole = number | bigint;

/** All that the hash of an entry covers. type, outcome: places in TYPES and OUTCOMES. amount: signed credits. balance:
 * after the entry. parcels: what it took from or gave to which batch, as `3:-25 4:10`. description: see `requestIdOf`,
 * `callDigestOf` and `keyOf`. */
export interface ReceiptEntry {
  number: Whole;
  at_ms: Whole;
  type: Whole;
  amount: Whole;
  balance: Whole;
  outcome: Whole;
  operation: string;
  parcels: string;
  method: string;
  description: string;
}

/** One receipt, as the gateway gives it. Hashes and the signature are in hexadecimal. */
export interface Receipt {
  version: Whole;
  account: string;
  entry: ReceiptEntry;
  before: string;
  first: Whole;
  last: Whole;
  head: string;
  entry_path: string[];
  account_index: Whole;
  account_path: string[];
  statement: string;
  key: string;
  signature: string;
}

/** The entries of an account between two receipts, as GET /account/consistency gives them. */
export interface Chain {
  account: string;
  after: Whole;
  entries: ReceiptEntry[];
}

/** Times are Unix milliseconds. retiredMs: since when it signs nothing more; null: it signs. */
export interface PublishedKey {
  publicKey: Uint8Array;
  madeMs: number;
  retiredMs: number | null;
}

/** The published keys by their names. */
export type PublicKeys = ReadonlyMap<string, PublishedKey>;

const KEY_SLACK_MS = 60_000; // The gateway's owners take a change of keys over within a minute.

type Form = Readonly<Record<string, (value: unknown) => boolean>>;
const isWhole = (value: unknown): boolean => Number.isSafeInteger(value) || typeof value === "bigint";
const isText = (value: unknown): value is string => typeof value === "string" && !/\p{Surrogate}/u.test(value);
const areTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const ENTRY: Form = {
  number: isWhole, at_ms: isWhole, type: isWhole, amount: isWhole, balance: isWhole, outcome: isWhole,
  operation: isText, parcels: isText, method: isText, description: isText,
};
const RECEIPT: Form = {
  version: isWhole, account: isText, entry: (value) => hasForm(value, ENTRY), before: isText, first: isWhole, last: isWhole,
  head: isText, entry_path: areTexts, account_index: isWhole, account_path: areTexts, statement: isText, key: isText,
  signature: isText,
};
const CHAIN: Form = {
  account: isText, after: isWhole,
  entries: (value) => Array.isArray(value) && value.every((entry) => hasForm(entry, ENTRY)),
};

/** Of an answer of /account/receipts, or of one receipt alone. Throws NotProven where it is neither. A text is parsed with
 * `parseExact`, as numbers beyond 2^53 would lose digits otherwise. */
export function readReceipts(document: unknown): Receipt[] {
  const found = isFields(document) && "receipts" in document ? document.receipts : [document];
  if (!Array.isArray(found) || !found.every((one) => hasForm(one, RECEIPT)))
    throw new NotProven("it has not the form of a receipt");
  return found;
}

/** Of an answer of /account/consistency. Throws NotProven. */
export function readChain(document: unknown): Chain {
  if (!hasForm(document, CHAIN)) throw new NotProven("it has not the form of a chain of entries");
  return document as Chain;
}

/** Of /.well-known/ledger-keys.json. Throws NotProven. */
export function publicKeys(document: unknown): PublicKeys {
  const keys = new Map<string, PublishedKey>(), found = isFields(document) ? document.keys : null;
  for (const key of Array.isArray(found) ? found : [null]) {
    const publicKey = isFields(key) && isText(key.public_key) ? fromHex(key.public_key) : null;
    if (publicKey === null || !isFields(key) || !isText(key.id) || !isWhole(key.made_at))
      throw new NotProven("the keys have not the form of /.well-known/ledger-keys.json");
    if (key.retired_at !== null && !isWhole(key.retired_at))
      throw new NotProven("the keys have not the form of /.well-known/ledger-keys.json");
    const retiredMs = key.retired_at === null ? null : Number(key.retired_at) * 1000;
    keys.set(key.id, { publicKey, madeMs: Number(key.made_at) * 1000, retiredMs });
  }
  return keys;
}

/** The digest of a call: params as they were sent (`[]` where there were none), answer as it came. */
export async function digestOf(params: string, answer: string): Promise<string> {
  return toBase64((await sha256(utf8(params), utf8("\n"), utf8(answer))).slice(0, 16));
}

/** The hash of the account's chain after this entry. before: the hash before it. */
export function hashAfter(before: Uint8Array, entry: ReceiptEntry): Promise<Bytes> {
  const { number, at_ms, type, amount, balance, outcome, operation, parcels, method, description } = entry;
  const numbers = [number, at_ms, type, amount, balance, outcome];
  const length = [...method].length; // In code points.
  return sha256(before, utf8([...numbers, operation, parcels, `${length}:${method}`, description].join(",")));
}

/** The hash after the entry. Throws NotProven. */
export async function check(receipt: Receipt, keys: PublicKeys): Promise<Bytes> {
  if (BigInt(receipt.version) !== 1n)
    throw new NotProven(`version ${receipt.version} is not known here: use a newer verifier`);
  const account = fromBase58(receipt.account), signature = fromHex(receipt.signature);
  const before = hash(receipt.before), head = hash(receipt.head);
  const entryPath = receipt.entry_path.map(hash), accountPath = receipt.account_path.map(hash);
  if (account === null || signature === null) throw new NotProven("the account or the signature cannot be read");
  const signed = STATEMENT.exec(receipt.statement);
  if (signed === null) throw new NotProven("its statement has another form");
  const key = keys.get(receipt.key);
  if (key === undefined) throw new NotProven(`the gateway has published no key ${receipt.key}`);
  const atMs = Number(signed[1]);
  if (atMs < key.madeMs - KEY_SLACK_MS || (key.retiredMs !== null && atMs > key.retiredMs + KEY_SLACK_MS))
    throw new NotProven(`the statement is of a time at which its key ${receipt.key} was not in use`);
  if (BigInt(receipt.entry.at_ms) > BigInt(signed[1]!)) throw new NotProven("the entry is later than its statement");
  if (!(await isSignedBy(key.publicKey, utf8(receipt.statement), signature)))
    throw new NotProven("the statement's signature is not by the published key");
  const [number, first, last] = [receipt.entry.number, receipt.first, receipt.last].map(BigInt) as [bigint, bigint, bigint];
  if (!(1n <= first && first <= number && number <= last && last < LAST_MAX) || account.length !== 32)
    throw new NotProven("the entry is not among those of the statement");
  const after = await hashAfter(before, receipt.entry);
  if (number === last && !areEqual(after, head))
    throw new NotProven("the entry is not the newest that the statement has of the account");
  const entriesRoot = await climb(await leaf(after), number - first, last - first + 1n, entryPath);
  const item = concat(account, eightBytes(first), eightBytes(last), head, entriesRoot);
  const root = await climb(await leaf(item), BigInt(receipt.account_index), BigInt(signed[2]!), accountPath);
  if (toHex(root) !== signed[3]) throw new NotProven("the entry does not lead to the root of the statement");
  return after;
}

/** Throw NotProven unless the later receipt's entry follows from the earlier one's by the entries between. Both are checked
 * before (`check`). */
export async function checkContinued(earlier: Receipt, later: Receipt, chain: Chain): Promise<void> {
  if (earlier.account !== later.account || later.account !== chain.account)
    throw new NotProven("the receipts and the entries between are of different accounts");
  let at = await hashAfter(hash(earlier.before), earlier.entry), number = BigInt(earlier.entry.number);
  const last = BigInt(later.entry.number);
  for (const entry of chain.entries) {
    if (BigInt(entry.number) !== number + 1n || number >= last)
      throw new NotProven(`entry ${number + 1n} is missing between the receipts`);
    at = await hashAfter(at, entry);
    number += 1n;
  }
  if (number !== last || !areEqual(at, await hashAfter(hash(later.before), later.entry)))
    throw new NotProven("the later receipt does not continue the earlier one: the ledger was changed between them");
}

/** Of a charged request; empty: not known. One that begins as its operation does is kept without that. */
export function requestIdOf(entry: ReceiptEntry): string {
  const first = entry.description.startsWith("tx:") || Number(entry.type) !== 2 ? "" : told(entry).split(" ")[0]!;
  return first.startsWith("-") ? entry.operation.slice(0, 10) + first : first;
}

/** Of a charged call: `digestOf` its parameters and answer; empty: not known. */
export const callDigestOf = (entry: ReceiptEntry): string =>
  Number(entry.type) === 2 ? (told(entry).split(" ")[1] ?? "") : "";

/** Number of the named key that paid, or was paid back; 0: none. */
export const keyOf = (entry: ReceiptEntry): number =>
  told(entry) === entry.description ? 0 : Number(entry.description.slice(entry.description.lastIndexOf("|") + 1));

function told(entry: ReceiptEntry): string {
  return [2, 3].includes(Number(entry.type)) ? entry.description.replace(KEY, "") : entry.description;
}

/** The root of a tree of `count` leaves, from the leaf at `index` up (RFC 9162, section 2.1.3.2). */
async function climb(node: Bytes, index: bigint, count: bigint, path: readonly Bytes[]): Promise<Bytes> {
  if (index < 0n || index >= count) throw new NotProven("a place in a tree is outside of it");
  let last = count - 1n;
  for (const beside of path) {
    if (last === 0n) throw new NotProven("a path is longer than its tree is high");
    if (index & 1n || index === last) {
      node = await sha256(Uint8Array.of(1), beside, node);
      while (index && !(index & 1n)) [index, last] = [index >> 1n, last >> 1n];
    } else node = await sha256(Uint8Array.of(1), node, beside);
    [index, last] = [index >> 1n, last >> 1n];
  }
  if (last) throw new NotProven("a path does not reach the root of its tree");
  return node;
}

const leaf = (item: Uint8Array): Promise<Bytes> => sha256(Uint8Array.of(0), item);
const eightBytes = (number: bigint): Bytes => fromHex(number.toString(16).padStart(16, "0"))!;

function hash(text: string): Bytes {
  const bytes = /^[0-9a-f]{64}$/.test(text) ? fromHex(text) : null;
  if (bytes === null) throw new NotProven(`${JSON.stringify(text.slice(0, 70))} is no hash in lower case`);
  return bytes;
}

/** Exactly these fields: one that is not known here may change what the others mean. */
function hasForm(value: unknown, form: Form): boolean {
  if (!isFields(value)) return false;
  const names = Object.keys(value);
  return names.length === Object.keys(form).length && names.every((name) => Object.hasOwn(form, name) && form[name]!(value[name]));
}
