"""Facts are read from headers, and headers are not believed."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.catalog.domain.formats import Malformed, Window, facts_of, read_file
from tests.catalog import made


def window(data: bytes) -> Window:
    return Window(len(data), lambda start, length: data[start : start + length])


def refusing(data: bytes, most: int) -> Window:
    """A window that fails a reader which looks at more than a header."""
    seen = 0

    def fetch(start: int, length: int) -> bytes:
        nonlocal seen
        seen += length
        assert seen <= most, "more was read than a header"
        return data[start : start + length]

    return Window(len(data), fetch)


def code_of(path: str, data: bytes) -> str:
    with pytest.raises(Malformed) as malformed:
        read_file(path, window(data))
    return malformed.value.code


# --- safetensors ----------------------------------------------------------------------------------------------------

GOOD = {"a": ("F32", [2, 3], b"\0" * 24), "b": ("BF16", [4], b"\0" * 8)}


def raw_safetensors(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def tensor(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape,
            "data_offsets": list(offsets) if isinstance(offsets, tuple) else offsets}  # fmt: skip


def test_safetensors_tell_their_parameters_by_type() -> None:
    found = read_file("model.safetensors", window(made.safetensors(GOOD, format="pt")))
    assert found is not None
    assert (found.format, found.tensors, found.parameters, found.weight_bytes) == ("safetensors", 2, 10, 32)
    assert found.dtypes == {"F32": 6, "BF16": 4}


MALFORMED_SAFETENSORS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "truncated"),
    "seven bytes": (b"\0" * 7, "truncated"),
    "a header of no bytes": (struct.pack("<Q", 0), "header-length"),
    "a header longer than the file": (struct.pack("<Q", 100) + b"{}", "header-length"),
    "a header of 16 EiB": (struct.pack("<Q", 2**64 - 1) + b"{}", "header-length"),
    "a header over the format's limit": (struct.pack("<Q", 100_000_001) + b"{}", "header-length"),
    "a header that is no JSON": (raw_safetensors(b'{"a": '), "header-json"),
    "a header that is a list": (raw_safetensors(b"[1, 2]"), "header-json"),
    "a header in a nest without end": (raw_safetensors(b'{"a":' * 50_000), "header-json"),
    "a header that is no text": (raw_safetensors(b"{\xff\xfe}"), "header-json"),
    "a name twice": (raw_safetensors(b'{"a": {}, "a": {}}'), "name-twice"),
    "a type nobody knows": (raw_safetensors({"a": tensor("F128")}, b"\0" * 4), "dtype"),
    "a type that is a list": (raw_safetensors({"a": tensor(["F32"])}, b"\0" * 4), "dtype"),
    "a tensor that is a number": (raw_safetensors({"a": 7}), "dtype"),
    "a negative shape": (raw_safetensors({"a": tensor(shape=(-1,))}, b"\0" * 4), "shape"),
    "a shape of halves": (raw_safetensors({"a": tensor(shape=(1.5,))}, b"\0" * 4), "shape"),
    "a shape of truth": (raw_safetensors({"a": tensor(shape=(True,))}, b"\0" * 4), "shape"),
    "a shape beyond all files": (raw_safetensors({"a": tensor(shape=(2**40, 2**40))}, b"\0" * 4), "shape"),
    "a shape of 17 dimensions": (raw_safetensors({"a": tensor(shape=(1,) * 17)}, b"\0" * 4), "shape"),
    "offsets backwards": (raw_safetensors({"a": tensor(offsets=(4, 0))}, b"\0" * 4), "offsets"),
    "offsets of another size": (raw_safetensors({"a": tensor(offsets=(0, 8))}, b"\0" * 8), "offsets"),
    "one offset": (raw_safetensors({"a": tensor(offsets=(0,))}, b"\0" * 4), "offsets"),
    "negative offsets": (raw_safetensors({"a": tensor(offsets=(-4, 0))}, b"\0" * 4), "offsets"),
    "tensors over each other": (
        raw_safetensors({"a": tensor(offsets=(0, 4)), "b": tensor(offsets=(2, 6))}, b"\0" * 6), "overlap"),
    "a hole between tensors": (
        raw_safetensors({"a": tensor(offsets=(0, 4)), "b": tensor(offsets=(8, 12))}, b"\0" * 12), "gap"),
    "a file cut short": (made.safetensors(GOOD)[:-1], "truncated"),
    "bytes nobody speaks of": (made.safetensors(GOOD) + b"x", "gap"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED_SAFETENSORS)
def test_malformed_safetensors(name: str) -> None:
    data, code = MALFORMED_SAFETENSORS[name]
    assert code_of("model.safetensors", data) == code


def test_of_safetensors_the_header_alone_is_read() -> None:
    big = made.safetensors({"a": ("U8", [1_000_000], b"\0" * 1_000_000)})
    assert read_file("model.safetensors", refusing(big, 200)) is not None


# --- GGUF -----------------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(values: list[bytes] | None = None, tensors: list[bytes] | None = None, body: int = 64, **head: int) -> bytes:
    values = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.context_length") + struct.pack("<II", 4, 4096),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 2) + b"\0" * 8,
    ] if values is None else values  # fmt: skip
    tensors = [gguf_tensor("w", [32], 2, 0), gguf_tensor("b", [4], 0, 32)] if tensors is None else tensors
    counts = {"version": 3, "tensors": len(tensors), "values": len(values)} | head
    data = b"GGUF" + struct.pack("<IQQ", counts["version"], counts["tensors"], counts["values"])
    data += b"".join(values) + b"".join(tensors)
    return data + b"\0" * (-len(data) % 32) + b"\0" * body


def gguf_tensor(name: str, shape: list[int], kind: int, offset: int) -> bytes:
    dimensions = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


def test_gguf_tells_architecture_quantisation_and_context() -> None:
    found = read_file("model.gguf", window(gguf()))
    assert found is not None
    assert (found.architecture, found.quantisation, found.context) == ("llama", "Q4_0", 4096)
    assert (found.parameters, found.tensors, found.weight_bytes) == (36, 2, 18 + 16)


MALFORMED_GGUF: dict[str, tuple[bytes, str]] = {
    "another magic": (b"GGML" + b"\0" * 40, "magic"),
    "a version nobody knows": (gguf(version=9), "version"),
    "cut in the head": (gguf()[:10], "truncated"),
    "tensors without number": (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "too-many"),
    "keys without number": (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "too-many"),
    "a name longer than the file": (gguf([struct.pack("<Q", 2**50)], []), "name-length"),
    "a value of no type": (gguf([text("a") + struct.pack("<I", 77)], []), "value-type"),
    "an array of arrays": (gguf([text("a") + struct.pack("<IIQ", 9, 9, 1)], []), "value-type"),
    "an array longer than the file": (gguf([text("a") + struct.pack("<IIQ", 9, 4, 2**61)], []), "truncated"),
    "strings longer than the file": (gguf([text("a") + struct.pack("<IIQ", 9, 8, 2**40)], []), "header-length"),
    "a string longer than the file": (gguf([text("a") + struct.pack("<IIQ", 9, 8, 1) + struct.pack("<Q", 2**40)], []), "truncated"),
    "nine dimensions": (gguf(tensors=[gguf_tensor("w", [1] * 9, 0, 0)]), "shape"),
    "more numbers than any file": (gguf(tensors=[gguf_tensor("w", [2**40, 2**40], 0, 0)]), "shape"),
    "half a block": (gguf(tensors=[gguf_tensor("w", [31], 2, 0)]), "shape"),
    "tensors over each other": (gguf(tensors=[gguf_tensor("w", [64], 0, 0), gguf_tensor("b", [4], 0, 32)]), "overlap"),
    "tensors beside the alignment": (gguf(tensors=[gguf_tensor("w", [4], 0, 7)]), "offsets"),
    "an alignment of zero": (gguf([text("general.alignment") + struct.pack("<II", 4, 0)], []), "alignment"),
    "a file cut short": (gguf(body=8), "truncated"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED_GGUF)
def test_malformed_gguf(name: str) -> None:
    data, code = MALFORMED_GGUF[name]
    assert code_of("model.gguf", data) == code


# --- NumPy ----------------------------------------------------------------------------------------------------------


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npy_header(header: str, body: bytes = b"", version: int = 1) -> bytes:
    raw = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(raw)) + raw + body


def test_arrays_tell_their_numbers() -> None:
    found = read_file("shard.npy", window(npy(np.zeros((2, 5)))))
    assert found is not None
    assert (found.parameters, found.dtypes, found.weight_bytes) == (10, {"F64": 10}, 80)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.zeros(3, np.float32), b=np.zeros((2, 2), np.int8))
    archive = read_file("all.npz", window(buffer.getvalue()))
    assert archive is not None
    assert archive.dtypes == {"F32": 3, "I8": 4}


def test_an_array_of_objects_is_a_pickle_and_stays_closed() -> None:
    found = read_file("x.npy", window(npy(np.array([Bomb()], dtype=object), allow_pickle=True)))
    assert found is not None
    assert (found.unopened, found.parameters) == (True, 0)
    assert Bomb.went_off == 0


MALFORMED_NUMPY: dict[str, tuple[str, bytes, str]] = {
    "another magic": ("a.npy", b"\x93NUMPX" + b"\0" * 20, "magic"),
    "a version nobody knows": ("a.npy", npy_header("{}", version=1)[:6] + b"\x09\0" + b"\0" * 8, "version"),
    "a header longer than the file": ("a.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", 500) + b"{" * 10, "truncated"),
    "a header of 4 GiB": ("a.npy", b"\x93NUMPY\x02\0" + struct.pack("<I", 2**32 - 1) + b"{}", "header-length"),
    "code for a header": ("a.npy", npy_header("__import__('os').system('true')"), "header-text"),
    "a nest without end": ("a.npy", npy_header("(" * 5_000), "header-text"),
    "no shape": ("a.npy", npy_header("{'descr': '<f8', 'fortran_order': False}"), "header-text"),
    "a negative shape": ("a.npy", npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"), "shape"),
    "a shape that is a list": ("a.npy", npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': [1]}"), "shape"),
    "a type nobody knows": ("a.npy", npy_header("{'descr': 'q', 'fortran_order': False, 'shape': (1,)}"), "dtype"),
    "a file cut short": ("a.npy", npy(np.zeros(4))[:-1], "truncated"),
    "bytes nobody speaks of": ("a.npy", npy(np.zeros(4)) + b"x", "gap"),
    "no archive": ("a.npz", b"PK\x03\x04 and nothing", "archive"),
}


@pytest.mark.parametrize("name", MALFORMED_NUMPY)
def test_malformed_numpy(name: str) -> None:
    path, data, code = MALFORMED_NUMPY[name]
    assert code_of(path, data) == code


def test_an_archive_that_unpacks_without_end_is_read_to_its_header_only() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy(np.zeros(2_000_000)))
    found = read_file("a.npz", refusing(buffer.getvalue(), 200_000))
    assert found is not None
    assert found.parameters == 2_000_000


# --- pickles, ONNX and what is none of these --------------------------------------------------------------------------


class Bomb:
    """Tells when it is unpickled."""

    went_off = 0

    def __reduce__(self) -> Any:
        return _go_off, ()


def _go_off() -> None:
    Bomb.went_off += 1


def torch_file() -> bytes:
    """What torch.save writes, in outline."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(Bomb()))
        archive.writestr("model/data/0", b"\0" * 64)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("pytorch_model.bin", torch_file()),
        ("model.pt", torch_file()),
        ("model", torch_file()),
        ("weights.pkl", pickle.dumps(Bomb())),
        ("weights", pickle.dumps(Bomb())),
        ("weights.joblib", b""),
        ("weights.ckpt", b"anything"),
    ],
)
def test_pickles_are_known_and_never_opened(path: str, data: bytes) -> None:
    facts = facts_of({path: window(data)})
    assert (facts["format"], facts["unopened"], facts["parameters"]) == ("pickle", [path], None)
    assert Bomb.went_off == 0


def test_an_onnx_file_is_known_as_one() -> None:
    graph = b"\x0a\x03abc"
    data = b"\x08\x09" + b"\x12\x07pytorch" + b"\x3a" + bytes([len(graph)]) + graph
    found = read_file("model.onnx", window(data))
    assert found is not None
    assert (found.format, found.architecture) == ("onnx", "pytorch")
    assert code_of("model.onnx", b"\x08\x09") == "magic"
    assert code_of("model.onnx", b"\x08\x09\x3a\x7fabc") == "truncated"
    assert code_of("model.onnx", b"\xff" * 12) == "value-type"


def test_a_charlm_checkpoint_counts_its_weights_without_their_velocity() -> None:
    manifest = {
        "format": "charlm-checkpoint/1",
        "step": 40,
        "model": {"context": 12, "blocks": [["e", [3]], ["h", [7]]]},
    }
    shards = [{"file": "s0.npy", "start": 0, "stop": 5}, {"file": "s1.npy", "start": 5, "stop": 10}]
    files = {
        "manifest.json": json.dumps({**manifest, "shards": shards}).encode(),
        "s0.npy": npy(np.zeros((2, 5))),
        "s1.npy": npy(np.zeros((2, 5))),
    }
    facts = facts_of({path: window(data) for path, data in files.items()})
    assert facts | {"bytes": 0} == {
        "format": "charlm", "parameters": 10, "weight_bytes": 80, "tensors": 2, "dtypes": {"F64": 10}, "context": 12,
        "architecture": "charlm", "quantisation": "", "step": 40, "unopened": [], "faults": [], "bytes": 0,
    }  # fmt: skip
    assert facts["bytes"] == sum(map(len, files.values()))
    shards[1]["start"] = 6
    assert code_of("manifest.json", json.dumps({**manifest, "shards": shards}).encode()) == "gap"


def test_a_sharded_model_is_added_up_and_a_bad_shard_is_named() -> None:
    files = {
        "model-00001-of-00002.safetensors": made.safetensors(GOOD),
        "model-00002-of-00002.safetensors": b"\0" * 9,
        "config.json": b'{"max_position_embeddings": 8192, "architectures": ["LlamaForCausalLM"]}',
        "README.md": b"# Hello",
    }
    facts = facts_of({path: window(data) for path, data in files.items()})
    assert (facts["format"], facts["parameters"], facts["context"]) == ("safetensors", 10, 8192)
    assert facts["architecture"] == "LlamaForCausalLM"
    assert facts["faults"] == [{"path": "model-00002-of-00002.safetensors", "code": "header-length"}]


BASES: list[tuple[str, Callable[[], bytes]]] = [
    ("m.safetensors", lambda: made.safetensors(GOOD)),
    ("m.gguf", gguf),
    ("m.npy", lambda: npy(np.zeros((2, 5)))),
    ("m.onnx", lambda: b"\x08\x09\x12\x07pytorch\x3a\x05\x0a\x03abc"),
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(BASES), st.data())
def test_any_damage_is_either_harmless_or_named(base: tuple[str, Callable[[], bytes]], data: st.DataObject) -> None:
    path, make = base
    raw = bytearray(make())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for damaged in (bytes(raw), bytes(raw[:cut])):
        facts = facts_of({path: window(damaged)})
        json.dumps(facts)
        assert Bomb.went_off == 0
