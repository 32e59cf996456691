// Opens one WebSocket with a credential, in browsers and in Node.
// Implements: actors/streams/README.md of the project, "For clients" (how the key is sent).

import { ApiKey, BadCredential } from "./credentials.js";
import { Unreachable } from "./errors.js";

/** The part of a WebSocket that a stream uses: the runtime's has it, and so has that of the package `ws`. */
export interface Socket {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: any) => void): void;
}

/** Makes a socket that connects. headers: of the handshake; empty for API keys, which travel as a subprotocol. */
export type OpenSocket = (url: string, protocols: string[], headers: Record<string, string>) => Socket;

/** With the runtime's own WebSocket. Those of browsers carry no headers; those of Node, Bun and Deno do. */
export const openSocket: OpenSocket = (url, protocols, headers) => {
  const runtime = globalThis as any;
  if (runtime.WebSocket === undefined)
    throw new BadCredential(
      "this runtime has no WebSocket: use Node 22, or `node --experimental-websocket`, or give `openSocket`",
    );
  if (Object.keys(headers).length === 0) return new runtime.WebSocket(url, protocols);
  if (runtime.process?.versions?.node === undefined)
    throw new BadCredential("a browser's WebSocket carries no signature and no token: use an API key or a named key");
  return new runtime.WebSocket(url, { protocols, headers });
};

/** The subprotocols by which a credential opens a socket; none where its headers do. */
export const protocolsOf = (credential: unknown): string[] =>
  credential instanceof ApiKey ? ["solana-rpc", `auth.${credential.text}`] : [];

/** How a connection ended. code: of WebSocket; 1006 where it was lost. */
export interface Closed {
  code: number;
  reason: string;
}

/** A socket that has opened. closed: settled once it has ended, by whomever. */
export class Connection {
  readonly closed: Promise<Closed>;
  onMessage: (data: unknown) => void = () => undefined;
  readonly #socket: Socket;
  readonly #end: (closed: Closed) => void;

  private constructor(socket: Socket) {
    this.#socket = socket;
    let end: (closed: Closed) => void = () => undefined;
    this.closed = new Promise((resolve) => (end = resolve));
    this.#end = end;
    socket.addEventListener("message", (event) => this.onMessage(event.data));
    socket.addEventListener("close", (event) => end({ code: event.code ?? 1006, reason: String(event.reason ?? "") }));
    socket.addEventListener("error", () => end({ code: 1006, reason: "" })); // Some runtimes tell no close after it.
  }

  /** Throws Unreachable; the socket is then closed. */
  static open(socket: Socket, url: string, seconds: number): Promise<Connection> {
    const connection = new Connection(socket);
    return new Promise((resolve, reject) => {
      const fail = (reason: string): void => {
        clearTimeout(timer);
        connection.close();
        reject(new Unreachable(`no WebSocket at ${url}: ${reason}`, false));
      };
      const timer = setTimeout(() => fail("it took too long to connect"), seconds * 1000);
      void connection.closed.then(() => fail("the handshake was refused, or nobody answered"));
      socket.addEventListener("open", () => {
        clearTimeout(timer);
        resolve(connection);
      });
    });
  }

  /** A socket that is lost takes nothing: `closed` tells it. */
  send(text: string): void {
    try {
      this.#socket.send(text);
    } catch {
      this.#end({ code: 1006, reason: "" });
    }
  }

  /** Nothing that comes after it is handed over. */
  close(): void {
    this.onMessage = () => undefined;
    try {
      this.#socket.close();
    } catch {
      // It was never open.
    }
    this.#end({ code: 1000, reason: "" });
  }
}
