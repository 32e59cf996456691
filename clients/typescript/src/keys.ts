// Named keys: API keys of one account with budgets and other limits, for a bot, an agent or a page each.
// Implements: README of the project, "Named keys". A wallet alone makes, changes and ends them; whoever holds a named key
// makes narrower ones of it, without asking anybody.

import { objectOf } from "./answers.js";
import { concat, fromBase64Url, randomBytes, sha256, SigningKey, toBase64Url, utf8 } from "./bytes.js";
import type { Gateway } from "./client.js";
import { BadCredential } from "./credentials.js";
import type { ChildLimits, KeyLimits, NamedKey, NewKey } from "./records.js";

const PREFIX = "srpc_live_";
const PLAIN_BYTES = 32, ROUTING_BYTES = 8, KEY_BYTES = 32;
const LIMITS_BYTES_MAX = 1_000; // Of one child: the gateway refuses longer ones.
const ROOT = utf8("ledger-gateway key root\0"), BLOCK = utf8("ledger-gateway key block\0");

/** gateway: its credential must be the wallet, but for `listed`. */
export class Keys {
  readonly #gateway: Gateway;

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  /** The account's named keys, or those that were made from this one. By a named key: itself alone. */
  async listed(parent: number | null = null): Promise<NamedKey[]> {
    const keys: NamedKey[] = [];
    for (let after: number | null = null; ; ) {
      const found = objectOf(await this.#gateway.page("/account/keys", { parent, after }), { keys: "list" });
      keys.push(...found.keys);
      if ((found.next_after ?? null) === null) return keys;
      after = found.next_after;
    }
  }

  create(name: string, limits: KeyLimits = {}): Promise<NewKey> {
    return this.#new("/account/keys", { name, ...limits });
  }

  /** null takes a limit away. */
  change(id: number, changes: KeyLimits & { name?: string; frozen?: boolean }): Promise<NamedKey> {
    return this.#changed("PATCH", id, changes);
  }

  /** A new text for the key. The former one is good for graceSeconds more, at most a day. */
  rotate(id: number, graceSeconds = 0): Promise<NewKey> {
    return this.#new(`/account/keys/${place(id)}/rotate`, { grace_seconds: graceSeconds });
  }

  /** End it for good, with all that it has open. */
  delete(id: number): Promise<NamedKey> {
    return this.#changed("DELETE", id);
  }

  async #new(path: string, content: unknown): Promise<NewKey> {
    // Never asked again: the text of a key whose answer was lost is known to nobody.
    const found = await this.#gateway.document("POST", path, content, "never");
    objectOf(found.key, { id: "whole", name: "text" });
    return objectOf(found, { api_key: "text" });
  }

  async #changed(method: string, id: number, content?: unknown): Promise<NamedKey> {
    const found = await this.#gateway.document(method, `/account/keys/${place(id)}`, content);
    return objectOf(found.key, { id: "whole", name: "text" });
  }
}

/** Make a key from a named key, or from one that was made so: it may do what all keys before it may, within these limits
 * too, and what it spends counts for them. expires_at: in Unix seconds. The gateway learns of it by its first call.
 *
 * seed: 32 secret bytes; by default fresh ones. Throws BadCredential for an account's own key in a form that cannot be
 * narrowed. */
export async function narrow(
  apiKey: string, name = "child", limits: ChildLimits = {}, seed: Uint8Array = randomBytes(KEY_BYTES),
): Promise<string> {
  const raw = apiKey.startsWith(PREFIX) ? fromBase64Url(apiKey.slice(PREFIX.length)) : null;
  if (raw === null || (raw.length !== PLAIN_BYTES && raw.length < ROUTING_BYTES + 4 * KEY_BYTES))
    throw new BadCredential("keys are made from a named key, which begins with srpc_live_");
  if (seed.length !== KEY_BYTES) throw new BadCredential(`a seed has ${KEY_BYTES} bytes, this one has ${seed.length}`);
  const isPlain = raw.length === PLAIN_BYTES;
  const parent = await SigningKey.of(isPlain ? await sha256(ROOT, utf8(apiKey)) : raw.slice(-KEY_BYTES));
  const chain = isPlain ? concat(raw.slice(0, ROUTING_BYTES), parent.public) : raw.slice(0, -KEY_BYTES);
  const child = await SigningKey.of(seed), told = utf8(asciiJson({ name, ...limits }));
  if (told.length > LIMITS_BYTES_MAX)
    throw new BadCredential(`the limits of a key are at most ${LIMITS_BYTES_MAX} bytes, these are ${told.length}`);
  const signature = await parent.sign(concat(BLOCK, parent.public, child.public, told));
  const size = Uint8Array.of(told.length >> 8, told.length & 255);
  return PREFIX + toBase64Url(concat(chain, size, told, child.public, signature, seed));
}

/** As Python's json.dumps writes it without spaces, so that both clients make the same bytes. */
const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

function place(id: number): string {
  if (Number.isSafeInteger(id) && id > 0) return String(id);
  throw new TypeError("the id of a key is a whole number above 0");
}
