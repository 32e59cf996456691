// A wallet without an account, with the MCP client and the x402 packages as their registry ships them: a call that
// nobody has paid for is a result with terms, and the same call with a payment in _meta is answered.
// Prints one line of JSON; any failure is an exit code.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { x402Client } from '@x402/fetch';
import { ExactSvmScheme } from '@x402/svm';
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit';

const { GATEWAY_URL, NODE_URL, SECRET_KEY, PAYMENT_NETWORK } = process.env;
const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(SECRET_KEY));
const payer = new x402Client().register(PAYMENT_NETWORK, new ExactSvmScheme(signer, { rpcUrl: NODE_URL }));

const client = new Client({ name: 'an agent', version: '1' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StreamableHTTPClientTransport(new URL(`${GATEWAY_URL}/mcp`)));
const asked = { name: 'getBalance', arguments: { params: [signer.address] } };
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const unpaid = await client.callTool(asked);
const payment = await payer.createPaymentPayload(unpaid.structuredContent);
const paid = await client.callTool({ ...asked, _meta: { 'x402/payment': payment } });
const again = await client.callTool({ ...asked, _meta: { 'x402/payment': payment } });
await client.close();
console.log(JSON.stringify({ tools: tools.length, unpaid, paid, again }));
