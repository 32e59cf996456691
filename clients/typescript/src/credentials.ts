// Who is calling: an API key, a wallet that signs each request, a session; none.
// Implements: README.md of the project, "Sign with the wallet itself". Secrets are in no text, no log and no error.

import { areEqual, fromBase58, randomBytes, sha256, SigningKey, toBase58, toBase64Url, toHex, utf8 } from "./bytes.js";

const SEED_BYTES = 32, SECRET_BYTES = 64;

/** A credential that cannot be one; the text never has the secret in it. */
export class BadCredential extends Error {
  override get name(): string {
    return "BadCredential";
  }
}

/** An Ed25519 key pair. Each request is signed anew, with the time and a fresh nonce.
 *
 * A wallet of a browser, which keeps its secret to itself, is `new Wallet(pubkey, signBytes)`. */
export class Wallet {
  readonly pubkey: string;
  readonly #sign: (message: Uint8Array) => Promise<Uint8Array>;
  readonly #secret: Uint8Array | null;

  constructor(pubkey: string, sign: (message: Uint8Array) => Promise<Uint8Array>, secret: Uint8Array | null = null) {
    if (fromBase58(pubkey)?.length !== SEED_BYTES) throw new BadCredential("a wallet's public key is 32 bytes in base58");
    this.pubkey = pubkey;
    this.#sign = sign;
    this.#secret = secret;
  }

  /** secret: a seed of 32 bytes, or seed and public key, 64 bytes. Throws BadCredential. */
  static async fromSecret(secret: Uint8Array): Promise<Wallet> {
    if (secret.length !== SEED_BYTES && secret.length !== SECRET_BYTES)
      throw new BadCredential(`a secret key has 32 or 64 bytes, this one has ${secret.length}`);
    const seed = secret.slice(0, SEED_BYTES), key = await SigningKey.of(seed);
    if (secret.length === SECRET_BYTES && !areEqual(secret.slice(SEED_BYTES), key.public))
      throw new BadCredential("the two halves of the secret key do not belong together");
    const both = new Uint8Array(SECRET_BYTES);
    both.set(seed);
    both.set(key.public, SEED_BYTES);
    return new Wallet(toBase58(key.public), (message) => key.sign(message), both);
  }

  static generate(): Promise<Wallet> {
    return Wallet.fromSecret(randomBytes(SEED_BYTES));
  }

  /** Of the base58 text that wallets export, or of the JSON list of 64 numbers that solana-keygen writes. */
  static async fromText(text: string): Promise<Wallet> {
    const told = text.trim();
    const secret = told.startsWith("[") ? fromList(told) : fromBase58(told);
    if (secret === null) throw new BadCredential("the secret key is neither base58 nor a JSON list of 64 numbers");
    return Wallet.fromSecret(secret);
  }

  /** Seed and public key, for libraries that sign transactions; null: the wallet keeps its secret to itself. */
  get secretBytes(): Uint8Array | null {
    return this.#secret === null ? null : this.#secret.slice();
  }

  /** The Ed25519 signature of a message, as base58 text. */
  async sign(message: Uint8Array): Promise<string> {
    return toBase58(await this.#sign(message));
  }

  /** The four headers that sign one request. path: as sent, without its query. now: Unix seconds. */
  async headers(method: string, path: string, body: string, now: number, nonce: string): Promise<Record<string, string>> {
    const digest = method === "GET" ? "" : toHex(await sha256(utf8(body))), seconds = Math.floor(now);
    const message = `ledger-svc:v2:${method}:${path}:${seconds}:${nonce}:${digest}`;
    return {
      "X-Pubkey": this.pubkey,
      "X-Signature": await this.sign(utf8(message)),
      "X-Timestamp": String(seconds),
      "X-Nonce": nonce,
    };
  }

  toString(): string {
    return `Wallet(${this.pubkey})`;
  }
}

/** A key from POST /account/api-key, a named key, or a child of one. */
export class ApiKey {
  readonly #text: string;

  constructor(text: string) {
    if (!/^[!-~]+$/.test(text)) throw new BadCredential("an API key is one word of printable characters");
    this.#text = text;
  }

  /** The secret. */
  get text(): string {
    return this.#text;
  }

  toString(): string {
    return "ApiKey(hidden)";
  }
}

/** Signs in with a wallet once, then sends a token; signs in again when the token has ended. */
export class Session {
  readonly wallet: Wallet;
  #token: string | null = null;

  constructor(wallet: Wallet) {
    this.wallet = wallet;
  }

  /** The secret of the session; null: it is not signed in. */
  get token(): string | null {
    return this.#token;
  }

  set token(token: string | null) {
    this.#token = token;
  }

  toString(): string {
    return `Session(${this.wallet.pubkey})`;
  }
}

export type Credential = ApiKey | Wallet | Session | null;

/** A text is an API key. */
export const credentialOf = (given: string | ApiKey | Wallet | Session | null | undefined): Credential =>
  typeof given === "string" ? new ApiKey(given) : (given ?? null);

/** The headers of one attempt; of a session without a token none. now: Unix seconds. */
export async function headersOf(
  credential: Credential, method: string, path: string, body: string, now: number,
): Promise<Record<string, string>> {
  if (credential instanceof ApiKey) return { "X-Api-Key": credential.text };
  if (credential instanceof Wallet) return credential.headers(method, path, body, now, toBase64Url(randomBytes(16)));
  return credential?.token ? { Authorization: `Bearer ${credential.token}` } : {};
}

function fromList(text: string): Uint8Array | null {
  try {
    const numbers: unknown = JSON.parse(text);
    const isList = Array.isArray(numbers) && numbers.every((each) => Number.isInteger(each) && each >= 0 && each < 256);
    return isList ? Uint8Array.from(numbers as number[]) : null;
  } catch {
    return null;
  }
}
