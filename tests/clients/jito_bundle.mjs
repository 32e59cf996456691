// jito-js-rpc with @solana/web3.js 1.x, as their registry ships them, through the gateway: a bundle from its tip
// account to its confirmation. The key goes where this client has a place for it. Prints one line of JSON; any failure
// is an exit code.
import { Connection, Keypair, PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import jito from 'jito-js-rpc';
import { getBase58Encoder } from '@solana/kit';

const { GATEWAY_URL, API_KEY, SECRET_KEY, SUFFIX } = process.env;
const connection = new Connection(GATEWAY_URL, { commitment: 'confirmed', httpHeaders: { 'X-Api-Key': API_KEY } });
const engine = new jito.JitoJsonRpcClient(`${GATEWAY_URL}${SUFFIX}`, API_KEY);
const payer = Keypair.fromSecretKey(Uint8Array.from(getBase58Encoder().encode(SECRET_KEY)));
const encoding = { encoding: 'base64' };

async function encoded(toPubkey, lamports) {
  const { blockhash } = await connection.getLatestBlockhash('confirmed');
  const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash });
  transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports }));
  transaction.sign(payer);
  return transaction.serialize().toString('base64');
}

const tipAccount = new PublicKey(await engine.getRandomTipAccount());
const receiver = Keypair.generate().publicKey;
const sent = await engine.sendBundle([[await encoded(receiver, 5_000_000), await encoded(tipAccount, 10_000)], encoding]);
const landed = await engine.confirmInflightBundle(sent.result, 60_000);
const alone = await engine.sendTxn([await encoded(tipAccount, 20_000), encoding], true);
const refused = await engine.sendBundle([[await encoded(receiver, 1_000)], encoding]);
console.log(JSON.stringify({
  transactions: landed.transactions.length, err: landed.err, balance: await connection.getBalance(receiver, 'processed'),
  alone: typeof alone.result, refused: refused.error.code,
}));
process.exit(0);
