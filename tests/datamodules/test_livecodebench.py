import base64
import json
import os
import pickle
import pickletools
import zlib
from collections import OrderedDict
from pathlib import Path

import pytest
from published import packed

from datamodules.sources import livecodebench
from datamodules.sources.plain_pickle import load_plain
from datamodules.sources.rows import RowError

TESTS = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]


class Runs:
    """Pickles into a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
def test_the_published_form_is_read(protocol):
    assert livecodebench.read_tests(packed(json.dumps(TESTS), protocol), "x") == TESTS
    assert livecodebench.read_tests(packed(TESTS, protocol), "x") == TESTS
    assert livecodebench.read_tests(json.dumps(TESTS), "x") == TESTS
    assert livecodebench.read_tests(None, "x") == []


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_admitted(protocol):
    value = {"a": [1, 2.5, None, True, "é", b"b", (1, "x")], "b": {"c": []}, "long": 10**40}
    if protocol < 3:
        value["a"].remove(b"b")  # bytes need a call of codecs.encode there
    assert load_plain(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("hidden", [False, True])
def test_a_malicious_pickle_does_nothing(tmp_path, protocol, hidden):
    mark = tmp_path / "ran"
    bomb = Runs(os.system, f"touch {mark}")
    data = pickle.dumps([json.dumps(TESTS), {"a": bomb}] if hidden else bomb, protocol)
    with pytest.raises(ValueError, match=r"asks for (posix|nt|os)\.system"):
        load_plain(data)
    text = base64.b64encode(zlib.compress(data)).decode()
    with pytest.raises(RowError, match="nothing of it was run"):
        livecodebench.read_tests(text, "private_test_cases")
    assert not mark.exists()
    pickle.loads(data)  # the same bytes do act on a plain unpickler
    assert mark.exists()


HARMLESS_LOOKING = [
    Runs(eval, "1"),
    Runs(getattr, "a", "upper"),
    Runs(bytearray, 3),
    OrderedDict(a=1),
    Path("x"),
    print,
]


@pytest.mark.parametrize("value", HARMLESS_LOOKING, ids=lambda value: type(value).__name__)
def test_every_global_is_refused(value):
    with pytest.raises(ValueError, match="asks for"):
        load_plain(pickle.dumps(value))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        b"\x80\x04.",
        b"cos\nsystem\n(S'touch x'\ntR.",
        b"(S'touch x'\nios\nsystem\n.",  # INST
        b"\x80\x02\x82\x01.",  # EXT1
        b"Pid\n.",  # PERSID
        b"\x80\x04\x8c\x01a\x8c\x01b\x93.",  # STACK_GLOBAL
        b"]]R.",  # REDUCE of a list
        b"}}b.",  # BUILD of a dict
        b"\x80\x05\x97.",  # NEXT_BUFFER
        b"j\xff\xff\xff\x7f.",
    ],
)
def test_broken_and_hand_made_pickles_are_errors(data):
    with pytest.raises(ValueError, match="refused"):
        load_plain(data)


def test_the_opcodes_that_call_are_all_covered():
    """Every opcode that can reach code needs a global, an extension or a persistent id first."""
    callers = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "REDUCE", "BUILD", "NEWOBJ", "NEWOBJ_EX"}
    callers |= {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
    assert callers <= {opcode.name for opcode in pickletools.opcodes}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not base64", "neither JSON nor base64"),
        (base64.b64encode(b"not zlib").decode(), "neither JSON nor base64"),
        (packed("not json"), "no JSON"),
        (packed([1, 2]), "no list of tests"),
        ('{"input": 1}', "no list of tests"),
    ],
)
def test_bad_tests_are_errors(text, message):
    with pytest.raises(RowError, match=message):
        livecodebench.read_tests(text, "private_test_cases")


def test_tests_that_swell_are_refused(monkeypatch):
    monkeypatch.setattr(livecodebench, "MAX_BYTES", 1000)
    with pytest.raises(RowError, match="more than 1000 bytes"):
        livecodebench.read_tests(packed("a" * 100_000), "private_test_cases")
