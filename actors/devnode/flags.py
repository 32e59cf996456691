"""The flags of the command line: what each is called in help, in one place.

Implements: types for typer, one a flag; defaults stand where the flags are used, and are those of Settings. Pure.
Not here: what is done with them (__main__.py), their ranges (settings.py).
"""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None, typer.Option(help="Folder of the chain, which is continued. Without it, nothing is kept.")
]
HttpPort = Annotated[int, typer.Option(help="Port of JSON-RPC and WebSockets; 0 takes a free one.")]
WsPort = Annotated[
    int | None,
    typer.Option(help="Second port for WebSockets; the HTTP port means none.", show_default="one above --http-port"),
]
TpuPort = Annotated[
    int, typer.Option(help="UDP port of the TPU over QUIC; 0 takes a free one, which getClusterNodes tells.")
]
GrpcPort = Annotated[
    int | None,
    typer.Option(help="Port of Yellowstone gRPC; 0 takes a free one.", show_default="10000, or a free one"),
]
GrpcTlsPort = Annotated[
    int | None,
    typer.Option(help="Port of the same with TLS.", show_default="one above --grpc-port, or a free one"),
]
GrpcTlsCert = Annotated[
    Path | None,
    typer.Option(help="Certificate chain (PEM) for it; without one, grpc-tls/ca.pem in the folder is its CA."),
]
GrpcTlsKey = Annotated[Path | None, typer.Option(help="Private key (PEM) of that certificate.")]
GrpcToken = Annotated[str | None, typer.Option(help="x-token that gRPC calls must carry.", show_default="none")]
GrpcReplaySlots = Annotated[int, typer.Option(help="Slots that from_slot can go back; 0 switches it off.")]
GrpcLimits = Annotated[
    Path | None, typer.Option(help="What a subscription may ask: the plugin's configuration, or its section filters.")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
SlotMs = Annotated[int, typer.Option(help="Length of a slot in milliseconds.")]
RootDepth = Annotated[int, typer.Option(help="Blocks from the slot being built down to the finalized one.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Same seed, same chain: keys, hashes, faults. Without it every new chain is another."),
]
RetentionSlots = Annotated[
    int, typer.Option(help="Slots whose blocks and transactions are kept; older ones are cleaned up.")
]
Reset = Annotated[bool, typer.Option("--reset", help="Forget the chain in the folder and begin a new one.")]
ReadyFile = Annotated[
    Path | None, typer.Option(help="Written (JSON: pid, addresses, keys) once calls are answered; removed at the end.")
]
ParentPid = Annotated[int | None, typer.Option(help="End when this process ends.")]
FaultsFile = Annotated[
    Path | None, typer.Option(help="Faults that hold from the start: the JSON that POST /admin/faults takes.")
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
    typer.Option("--account", help="Account of a new chain: what `solana account --output json` writes. Repeatable."),
]
ProgramFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--program", metavar="ADDRESS=FILE", help="Program (ELF) of a new chain, replacing an imitation. Repeatable."
    ),
]
