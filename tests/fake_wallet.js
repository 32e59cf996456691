// A wallet of the Wallet Standard, for tests of pages. SEED: 64 hexadecimal characters. MODE: good, refuses, lies (about
// its key), rewrites (what it signs), or plain (without solana:signIn). It loads before the page's own script.
(() => {
  const seed = Uint8Array.from("SEED".match(/../g), (pair) => parseInt(pair, 16));
  const prefix = Uint8Array.from("302e020100300506032b657004220420".match(/../g), (pair) => parseInt(pair, 16));
  const key = crypto.subtle.importKey("pkcs8", new Uint8Array([...prefix, ...seed]), "Ed25519", false, ["sign"]);
  const publicKey = Uint8Array.from("PUBKEY".match(/../g), (pair) => parseInt(pair, 16));
  const account = { address: "ADDRESS", publicKey, chains: ["solana:localnet", "solana:devnet"], features: [] };
  const mode = () => window.walletMode ?? "MODE";
  window.walletAsked = [];
  async function sign(bytes) {
    if (mode() === "refuses") throw new Error("User rejected the request");
    return new Uint8Array(await crypto.subtle.sign("Ed25519", await key, bytes));
  }
  async function signMessage({ message }) {
    window.walletAsked.push(new TextDecoder().decode(message));
    const signedMessage = mode() === "rewrites" ? new TextEncoder().encode("something else") : message;
    return [{ signedMessage, signature: await sign(signedMessage) }];
  }
  async function signIn(input) {
    const text = `${input.domain} wants you to sign in with your Solana account:\n${input.address}\n\n${input.statement}\n\nURI: ${input.uri}\nVersion: ${input.version}\nNonce: ${input.nonce}\nIssued At: ${input.issuedAt}\nExpiration Time: ${input.expirationTime}`;
    const [signed] = await signMessage({ message: new TextEncoder().encode(text) });
    return [{ account, ...signed }];
  }
  async function signTransaction({ transaction }) {
    const signature = await sign(transaction.slice(65));
    return [{ signedTransaction: new Uint8Array([1, ...signature, ...transaction.slice(65)]) }];
  }
  const stranger = { ...account, publicKey: publicKey.map((byte) => byte ^ 1) };
  const wallet = {
    version: "1.0.0", name: "Test Wallet", icon: "data:image/svg+xml,", chains: account.chains, accounts: [account],
    features: {
      "standard:connect": { version: "1.0.0", connect: async () => ({ accounts: [mode() === "lies" ? stranger : account] }) },
      "solana:signMessage": { version: "1.0.0", signMessage },
      "solana:signTransaction": { version: "1.0.0", signTransaction },
      ...("MODE" === "plain" ? {} : { "solana:signIn": { version: "1.0.0", signIn } }),
    },
  };
  const register = ({ register: take }) => take(wallet);
  window.addEventListener("wallet-standard:app-ready", ({ detail }) => register(detail));
  window.dispatchEvent(new CustomEvent("wallet-standard:register-wallet", { detail: register }));
})();
