// Checking that a webhook's delivery is the gateway's own.
// Implements: actors/webhooks/README.md of the project; Standard Webhooks. Pure: the time is an argument.

import { type Bytes, fromBase64Url, toHex, utf8, concat, toBase64 } from "./bytes.js";
import { parseExact } from "./exact_json.js";

export const TOLERANCE_SECONDS = 300;
const PREFIX = "whsec_";
const SIGNATURES_MAX = 8; // Of one header: the service sends three previous ones at most.

/** The delivery is not the gateway's, or too old. Answer it with 400. */
export class WebhookInvalid extends Error {
  override get name(): string {
    return "WebhookInvalid";
  }
}

/** eventId: the same for every retry and replay; ignore one that you have. */
export interface Delivery {
  eventId: string;
  webhookId: string | null;
  timestamp: number;
  event: any;
}

/** Check one delivery and return it. Throws WebhookInvalid. headers: of the request, names in any case. body: the raw
 * text. secret: as shown at creation. now: Unix seconds. Both schemes count: X-Webhook-Signature, those of the previous
 * secrets after a rotation, and webhook-signature of Standard Webhooks. Compared in constant time. */
export async function verify(
  headers: Readonly<Record<string, string>>, body: string, secret: string, now: number,
  toleranceSeconds = TOLERANCE_SECONDS,
): Promise<Delivery> {
  const found = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const eventId = found.get("x-webhook-event-id") || found.get("webhook-id") || "";
  const stamp = found.get("x-webhook-timestamp") || found.get("webhook-timestamp") || "";
  if (!secret) throw new WebhookInvalid("no secret");
  if (!eventId || !/^\d{1,12}$/.test(stamp)) throw new WebhookInvalid("no event id or no timestamp");
  if (Math.abs(now - Number(stamp)) > toleranceSeconds)
    throw new WebhookInvalid(`the timestamp is more than ${toleranceSeconds} seconds off`);
  if (!(await isOurs(found, utf8(`${eventId}.${stamp}.${body}`), secret)))
    throw new WebhookInvalid("no signature of this secret");
  try {
    const webhookId = found.get("x-webhook-id") ?? null;
    return { eventId, webhookId, timestamp: Number(stamp), event: parseExact(body) };
  } catch {
    throw new WebhookInvalid("the body is not JSON");
  }
}

async function isOurs(headers: ReadonlyMap<string, string>, signed: Bytes, secret: string): Promise<boolean> {
  const nonce = crypto.getRandomValues(new Uint8Array(32));
  const own = "sha256=" + toHex(await hmac(utf8(secret), signed));
  const previous = (headers.get("x-webhook-signature-previous") ?? "").split(",").slice(0, SIGNATURES_MAX);
  const given = [headers.get("x-webhook-signature") ?? "", ...previous].map((one) => [own, one.trim()]);
  const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
  const key = fromBase64Url(text.replaceAll("+", "-").replaceAll("/", "_"));
  if (key !== null && key.length > 0) {
    const digest = toBase64(await hmac(key, signed)), padding = "=".repeat(-digest.length & 3);
    const parts = (headers.get("webhook-signature") ?? "").split(" ").slice(0, SIGNATURES_MAX);
    given.push(...parts.map((part) => [`v1,${digest}${padding}`, part]));
  }
  // Both texts under a key of this moment: how long the comparison takes then tells nothing of them.
  const matches = given.map(async ([wanted, one]) =>
    toHex(await hmac(nonce, utf8(wanted!))) === toHex(await hmac(nonce, utf8(one!))),
  );
  return (await Promise.all(matches)).includes(true);
}

async function hmac(key: Bytes, message: Bytes): Promise<Bytes> {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, concat(message)));
}
