"""The table of calls and the generated messages agree with the .proto files."""

from pathlib import Path

import grpc_tools
import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from actors.geyser_proto import geyser_pb2, solana_storage_pb2
from actors.geyser_proto.api import RPCS, SERVICE
from tests.tidy.sources import ROOT

FOLDER = "actors/geyser_proto"
MODULES = {"geyser.proto": geyser_pb2, "solana-storage.proto": solana_storage_pb2}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """The present .proto files, compiled, by name."""
    out = tmp_path_factory.mktemp("proto") / "all.binpb"
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}", f"--descriptor_set_out={out}"]
    assert protoc.main([*arguments, *(str(ROOT / FOLDER / name) for name in MODULES)]) == 0
    found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return {Path(file.name).name: file for file in found.file}


@pytest.mark.parametrize("name", MODULES)
def test_generated_code_agrees_with_the_proto(
    name: str, compiled: dict[str, descriptor_pb2.FileDescriptorProto]
) -> None:
    """The test fails after a change of a .proto without a new run of the generator."""
    generated = descriptor_pb2.FileDescriptorProto()
    MODULES[name].DESCRIPTOR.CopyToProto(generated)
    for message in compiled[name].message_type:
        _forget_json_names(message)
    assert generated == compiled[name]


def _forget_json_names(message: descriptor_pb2.DescriptorProto) -> None:
    """Clear json_name, which the compiler writes and the runtime derives."""
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _forget_json_names(nested)


@pytest.mark.parametrize("name", MODULES)
def test_type_stubs_have_every_message(name: str) -> None:
    """The type checker knows every message."""
    stub = Path(str(MODULES[name].__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    for message in MODULES[name].DESCRIPTOR.message_types_by_name:
        assert f"class {message}(" in stub


def test_the_table_has_every_call_of_the_service() -> None:
    """Servers and clients would not know a call that is missing in the table."""
    service = geyser_pb2.DESCRIPTOR.services_by_name["Geyser"]
    assert service.full_name == SERVICE
    listed = [(rpc.name, rpc.request.DESCRIPTOR.full_name, rpc.response.DESCRIPTOR.full_name) for rpc in RPCS]
    assert listed == [(m.name, m.input_type.full_name, m.output_type.full_name) for m in service.methods]
    for rpc, method in zip(RPCS, service.methods, strict=True):
        assert rpc.is_stream == method.client_streaming == method.server_streaming
        assert rpc.path == f"/{SERVICE}/{method.name}"


@pytest.mark.parametrize(
    ("message", "field", "number"),
    [
        ("SubscribeRequest", "from_slot", 11),
        ("SubscribeRequestFilterAccounts", "account", 2),
        ("SubscribeRequestFilterTransactions", "token_accounts", 30),
        ("SubscribeUpdate", "created_at", 11),
        ("SubscribeUpdateBlock", "parent_slot", 7),
        ("SubscribeUpdateBlockMeta", "parent_slot", 6),
        ("SubscribeUpdateDeshred", "slot", 6),
    ],
)
def test_field_numbers_are_those_of_the_public_format(message: str, field: str, number: int) -> None:
    """These field numbers do not follow the order of the fields, so they are easy to get wrong."""
    assert geyser_pb2.DESCRIPTOR.message_types_by_name[message].fields_by_name[field].number == number
