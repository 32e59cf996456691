"""The flags of the command line, with their help texts.

Implements: one typer type for each flag. Pure.
Not here: their defaults and their use (__main__.py), their ranges (settings.py).
"""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the chain; an existing chain goes on. Without it, the chain is not kept.")
]
HttpPort = Annotated[int, typer.Option(help="Port of JSON-RPC and WebSockets; 0: a free port.")]
WsPort = Annotated[
    int | None,
    typer.Option(
        help="Second port for WebSockets; equal to --http-port: no second port.", show_default="one above --http-port"
    ),
]
TpuPort = Annotated[
    int, typer.Option(help="UDP port of the TPU over QUIC; 0: a free port, which getClusterNodes shows.")
]
Leaders = Annotated[int, typer.Option(help="Leaders of the chain, this node and others; each has its own TPU port.")]
GrpcPort = Annotated[
    int | None,
    typer.Option(help="Port of Yellowstone gRPC; 0: a free port.", show_default="10000, or a free port"),
]
GrpcTlsPort = Annotated[
    int | None,
    typer.Option(help="Port of Yellowstone gRPC with TLS.", show_default="one above --grpc-port, or a free port"),
]
GrpcTlsCert = Annotated[
    Path | None,
    typer.Option(help="Certificate chain (PEM) for TLS; without it, grpc-tls/ca.pem in the folder is the CA."),
]
GrpcTlsKey = Annotated[Path | None, typer.Option(help="Private key (PEM) of --grpc-tls-cert.")]
GrpcToken = Annotated[str | None, typer.Option(help="x-token that gRPC calls must carry.", show_default="none")]
GrpcReplaySlots = Annotated[int, typer.Option(help="Slots that from_slot can go back; 0: no replays.")]
GrpcLimits = Annotated[
    Path | None, typer.Option(help="Limits of subscriptions: the plugin's configuration, or its section filters.")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
SlotMs = Annotated[int, typer.Option(help="Length of a slot in milliseconds.")]
RootDepth = Annotated[int, typer.Option(help="Blocks from the slot being built down to the finalized one.")]
ConfirmDepth = Annotated[int, typer.Option(help="Blocks from the slot being built down to the confirmed one.")]
BlockUnits = Annotated[int, typer.Option(help="Compute units that a block takes.")]
AccountUnits = Annotated[
    int, typer.Option(help="Compute units that a block takes of transactions writing one account.")
]
CrowdLoad = Annotated[
    float, typer.Option("--crowd", help="Competing transactions in each slot, in blocks' worth of units; 0: none.")
]
Seed = Annotated[
    int | None,
    typer.Option(help="Same seed, same chain: keys, hashes, faults. Without it, each new chain is different."),
]
RetentionSlots = Annotated[
    int, typer.Option(help="Slots whose blocks and transactions are kept; older ones are cleaned up.")
]
Reset = Annotated[bool, typer.Option("--reset", help="Delete the chain in the folder and begin a new one.")]
ReadyFile = Annotated[
    Path | None,
    typer.Option(help="File (JSON: pid, addresses, keys) written when calls are answered; removed at the end."),
]
ParentPid = Annotated[int | None, typer.Option(help="End when this process ends.")]
FaultsFile = Annotated[
    Path | None, typer.Option(help="File with faults from the start: the JSON of POST /admin/faults.")
]
LaunchPrograms = Annotated[
    bool,
    typer.Option(
        "--launch-programs/--no-launch-programs",
        help="Whether a new chain has the bonding-curve launch programs, whose effects are imitated.",
    ),
]
AccountFiles = Annotated[
    list[Path] | None,
    typer.Option("--account", help="Account of a new chain: output of `solana account --output json`. Repeatable."),
]
CloneFrom = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Another node, whose accounts and programs are taken over when they are first touched.",
        show_default="none",
    ),
]
AccountFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--accounts",
        "--account-dir",
        metavar="DIR",
        help="Folder whose .json files are accounts of a new chain, each as --account takes it. Repeatable.",
    ),
]
ProgramFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--program", metavar="ADDRESS=FILE", help="Program (ELF) of a new chain, replacing an imitation. Repeatable."
    ),
]
