// A wallet without an account, with @x402/fetch and @x402/svm as their registry ships them: one call, answered.
// Prints one line of JSON; any failure is an exit code. VERSION 1 hides the version 2 header, as old servers have none.
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from '@x402/fetch';
import { ExactSvmScheme } from '@x402/svm';
import { ExactSvmSchemeV1 } from '@x402/svm/v1';
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit';

const { GATEWAY_URL, NODE_URL, SECRET_KEY, VERSION } = process.env;
const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(SECRET_KEY));
const old = VERSION === '1';

const asked = [];
const plainFetch = async (input, init) => {
  const request = new Request(input, init);
  asked.push(request.headers.has('payment-signature') ? 2 : request.headers.has('x-payment') ? 1 : 0);
  const response = await fetch(request);
  if (!old || response.status !== 402) return response;
  const headers = new Headers(response.headers);
  headers.delete('payment-required');
  return new Response(await response.text(), { status: 402, headers });
};

const schemes = old
  ? [{ network: 'solana-devnet', client: new ExactSvmSchemeV1(signer, { rpcUrl: NODE_URL }), x402Version: 1 }]
  : [{ network: 'solana:*', client: new ExactSvmScheme(signer, { rpcUrl: NODE_URL }) }];
const payingFetch = wrapFetchWithPaymentFromConfig(plainFetch, { schemes });

const began = Date.now();
const response = await payingFetch(`${GATEWAY_URL}/`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'getBalance', params: [signer.address] }),
});
const receipt = response.headers.get(old ? 'x-payment-response' : 'payment-response');
console.log(JSON.stringify({
  status: response.status,
  body: await response.json(),
  receipt: receipt && decodePaymentResponseHeader(receipt),
  remaining: response.headers.get('x-credits-remaining'),
  asked,
  milliseconds: Date.now() - began,
}));
