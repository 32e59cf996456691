"""A funded wallet on devnode, and its payments: each a transaction of its own, with a tip for the block engine."""

import itertools

import aiohttp
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.addresses import TIP_ACCOUNTS
from bench.deposits import rpc

_LAMPORTS = 10**15
_TIP = 1_000
_UNITS_FIRST = 1_000  # What a transfer with a tip needs; each payment asks for more, so that all differ.


class Payer:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self.keypair, self._to = Keypair(), Pubkey.new_unique()
        self._numbers = itertools.count(1)

    async def fund(self) -> None:
        """Returns when a transaction of this wallet can succeed at confirmed commitment."""
        for pubkey, lamports in ((self.keypair.pubkey(), _LAMPORTS), (self._to, 10**9)):
            body = {"pubkey": str(pubkey), "lamports": lamports}
            async with self._session.post(f"{self._url}/admin/fund", json=body) as answer:
                assert answer.status == 200, await answer.text()
        confirmed = {"commitment": "confirmed"}
        while not (await rpc(self._session, self._url, "getBalance", str(self._to), confirmed))["value"]:
            pass

    def signed(self, blockhash: str, unit_price: int = 0) -> bytes:
        """Sign a payment that differs from all before it. unit_price: micro-lamports a compute unit."""
        number, owner = next(self._numbers), self.keypair.pubkey()
        instructions = [
            set_compute_unit_limit(_UNITS_FIRST + number),
            transfer(TransferParams(from_pubkey=owner, to_pubkey=self._to, lamports=1)),
            transfer(TransferParams(from_pubkey=owner, to_pubkey=Pubkey.from_string(TIP_ACCOUNTS[0]), lamports=_TIP)),
        ]
        if unit_price:
            instructions.insert(0, set_compute_unit_price(unit_price))
        message = MessageV0.try_compile(owner, instructions, [], Hash.from_string(blockhash))
        return bytes(VersionedTransaction(message, [self.keypair]))
