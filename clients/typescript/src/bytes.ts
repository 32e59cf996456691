// Bytes and their texts: hexadecimal, base58, base64; SHA-256 and Ed25519 of the runtime (WebCrypto).
// Here and no package of others, as browsers and Node have all but base58.

export type Bytes = Uint8Array<ArrayBuffer>;

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const ENCODER = new TextEncoder();
const ED25519 = { name: "Ed25519" };
const PKCS8 = "302e020100300506032b657004220420"; // Before a seed of Ed25519 (RFC 8410, section 7).

export const utf8 = (text: string): Bytes => ENCODER.encode(text) as Bytes;

export function concat(...parts: readonly Uint8Array[]): Bytes {
  const made = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    made.set(part, at);
    at += part.length;
  }
  return made;
}

export const areEqual = (one: Uint8Array, other: Uint8Array): boolean => toHex(one) === toHex(other);

export const toHex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The bytes of a hexadecimal text; null: it is none. */
export function fromHex(text: string): Bytes | null {
  if (text.length % 2 || !/^[0-9a-fA-F]*$/.test(text)) return null;
  return Uint8Array.from({ length: text.length / 2 }, (_, place) => parseInt(text.slice(2 * place, 2 * place + 2), 16));
}

export function toBase58(bytes: Uint8Array): string {
  let value = BigInt("0x0" + toHex(bytes)), text = "";
  for (; value > 0n; value /= 58n) text = ALPHABET[Number(value % 58n)] + text;
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(zeros < 0 ? bytes.length : zeros) + text;
}

/** The bytes of a base58 text of at most 200 characters, which is more than any key or signature has; null: it is none. */
export function fromBase58(text: string): Bytes | null {
  if (text.length > 200) return null;
  let value = 0n;
  for (const letter of text) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) return null;
    value = value * 58n + BigInt(digit);
  }
  const hex = value === 0n ? "" : value.toString(16), zeros = text.length - text.replace(/^1+/, "").length;
  return fromHex("00".repeat(zeros) + (hex.length % 2 ? "0" : "") + hex);
}

/** Without padding. */
export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replace(/=+$/, "");
}

export const toBase64Url = (bytes: Uint8Array): string => toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_");

/** The bytes of base64url, with padding or without; null: it is none. */
export function fromBase64Url(text: string): Bytes | null {
  if (!/^[A-Za-z0-9_-]*={0,2}$/.test(text)) return null;
  try {
    const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/").replace(/=+$/, ""));
    return Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}

export const randomBytes = (count: number): Bytes => crypto.getRandomValues(new Uint8Array(count));

export async function sha256(...parts: readonly Uint8Array[]): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", concat(...parts)));
}

/** An Ed25519 key of a seed of 32 bytes. */
export class SigningKey {
  readonly public: Bytes;
  readonly #key: CryptoKey;

  private constructor(key: CryptoKey, publicKey: Bytes) {
    this.#key = key;
    this.public = publicKey;
  }

  static async of(seed: Uint8Array): Promise<SigningKey> {
    const key = await crypto.subtle.importKey("pkcs8", concat(fromHex(PKCS8)!, seed), ED25519, true, ["sign"]);
    const told = await crypto.subtle.exportKey("jwk", key);
    return new SigningKey(key, fromBase64Url(told.x!)!);
  }

  async sign(message: Uint8Array): Promise<Bytes> {
    return new Uint8Array(await crypto.subtle.sign(ED25519, this.#key, concat(message)));
  }
}

/** Whether the signature of the message is by the public key. */
export async function isSignedBy(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean> {
  try {
    const key = await crypto.subtle.importKey("raw", concat(publicKey), ED25519, false, ["verify"]);
    return await crypto.subtle.verify(ED25519, key, concat(signature), concat(message));
  } catch (error) {
    // Bytes that are no key at all are refused by the import; a runtime without Ed25519 must not pass for a bad signature.
    if (error instanceof DOMException && error.name === "NotSupportedError") throw error;
    return false;
  }
}
