// In place of the network: answers and sockets that a test scripts, and a sleep that takes no time.

export const KEY = "srpc_live_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA";

export class Waits {
  seconds = [];
  sleep = async (seconds) => {
    this.seconds.push(seconds);
    await new Promise((resolve) => setImmediate(resolve));
  };
}

export const json = (body, status = 200, headers = {}) => ({ body: JSON.stringify(body), status, headers });
export const refused = (constant, status, headers = {}) =>
  json({ error: { code: constant, source: "gateway", constant, message: "no" } }, status, headers);

/** A fetch that gives these answers, one after the other, the last one for ever. A function makes its answer of the
 * request; an Error is thrown. asked: the requests so far. */
export function scripted(...answers) {
  const asked = [];
  const fetch = async (url, request) => {
    asked.push({ url, ...request });
    let answer = answers[Math.min(asked.length, answers.length) - 1];
    if (typeof answer === "function") answer = answer(asked.at(-1));
    if (answer instanceof Error) throw answer;
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  };
  return { fetch, asked };
}

/** Sockets whose other ends are these servers, one after the other, the last one for ever. A server is called with its
 * end when the socket has opened; an Error refuses the handshake. */
export function sockets(...servers) {
  const opened = [];
  const openSocket = (url, protocols, headers) => {
    const server = servers[Math.min(opened.length, servers.length - 1)];
    const end = new ServerEnd();
    opened.push({ url, protocols, headers, end });
    setImmediate(() => {
      if (server instanceof Error) return end.tell("error", {});
      end.tell("open", {});
      void server(end);
    });
    return end.socket;
  };
  return { openSocket, opened };
}

export class ServerEnd {
  #listeners = {};
  #heard = [];
  #waiting = null;
  isOpen = true;
  socket = {
    addEventListener: (type, listener) => (this.#listeners[type] ??= []).push(listener),
    send: (text) => {
      this.#heard.push(JSON.parse(text));
      this.#waiting?.();
    },
    close: () => this.close(1005),
  };

  tell(type, event) {
    for (const listener of this.#listeners[type] ?? []) listener(event);
  }
  async request() {
    while (!this.#heard.length) await new Promise((resolve) => (this.#waiting = resolve));
    return this.#heard.shift();
  }
  say(message) {
    if (this.isOpen) this.tell("message", { data: JSON.stringify(message) });
  }
  async answer(result) {
    const request = await this.request();
    this.say({ jsonrpc: "2.0", id: request.id, ...(result.error ? result : { result }) });
    return request;
  }
  notify(subscription, result, method = "rootNotification") {
    this.say({ jsonrpc: "2.0", method, params: { subscription, result } });
  }
  close(code = 1006, reason = "") {
    if (!this.isOpen) return;
    this.isOpen = false;
    setImmediate(() => this.tell("close", { code, reason }));
  }
}

export const next = async (events) => (await events.next()).value;
