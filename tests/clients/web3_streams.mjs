// Subscriptions and sendAndConfirmTransaction with @solana/web3.js 1.x as its registry ships it: it finds the WebSocket
// by itself, on the port after HTTP's. Prints one line of JSON; any failure is an exit code.
import {
  Connection, Keypair, SystemProgram, Transaction, sendAndConfirmTransaction,
} from '@solana/web3.js';

const { RPC_URL, SECRET_KEY, LAMPORTS } = process.env;
const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const decoded = (text) => {
  let number = 0n;
  for (const letter of text) number = number * 58n + BigInt(ALPHABET.indexOf(letter));
  return Uint8Array.from(Buffer.from(number.toString(16).padStart(128, '0'), 'hex'));
};

const connection = new Connection(RPC_URL, 'confirmed');
const sender = Keypair.fromSecretKey(decoded(SECRET_KEY));
const receiver = Keypair.generate().publicKey;
const slots = [];
const slotWatch = connection.onSlotChange(({ slot }) => slots.push(slot));
const changed = new Promise((resolve) => {
  connection.onAccountChange(receiver, (account, context) => resolve({ lamports: account.lamports, ...context }));
});
const transfer = SystemProgram.transfer({ fromPubkey: sender.publicKey, toPubkey: receiver, lamports: Number(LAMPORTS) });
await new Promise((resolve) => setTimeout(resolve, 1500)); // The subscriptions of the client begin in the background.
const signature = await sendAndConfirmTransaction(connection, new Transaction().add(transfer), [sender]);
const account = await changed;
await connection.removeSlotChangeListener(slotWatch);
console.log(JSON.stringify({ signature, lamports: account.lamports, slots: slots.length, sorted: slots.every((slot, i) => !i || slot > slots[i - 1]) }));
process.exit(0);
