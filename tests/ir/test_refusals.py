"""What is refused of a file, with the words it is refused in. The message names the layer or the
edge.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import uncork
from tests.ir._files import (
    Net,
    constant,
    edge,
    layer,
    one_constant,
    parameter,
    port,
    relu,
    result,
    simple,
)


def refusal(path: Path) -> uncork.UncorkError:
    with pytest.raises(uncork.UncorkError) as caught:
        uncork.load(path)
    assert str(caught.value).startswith(str(path))
    assert all(p.message for p in caught.value.problems)
    return caught.value


# ---- not an IR model at all: ReadError


def _bytes_refused(folder: Path, data: bytes) -> str:
    path = folder / "model.xml"
    path.write_bytes(data)
    error = refusal(path)
    assert isinstance(error, uncork.ReadError)
    return str(error)


GOOD = str(simple())
ENTITY = '<!DOCTYPE net [<!ENTITY a "x">]>'
LAUGHS = (
    "<!DOCTYPE z ["
    + '<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    + "]>"
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty: copy or convert"),
        (b" \n\t ", "the file is empty"),
        (
            b"no XML",
            r"not well-formed XML: syntax error at line 1, column 0: no XML begins so: give the"
            r" \.xml file of an OpenVINO model, or an \.onnx file$",
        ),
        (b"\0\0\0\0", "not well-formed XML: .* at line 1"),
        (GOOD[: len(GOOD) // 2].encode(), r"not well-formed XML: .* at line \d+, column \d+"),
        (GOOD[: GOOD.rindex("</")].encode(), r"no element found at .*: the file ends too early"),
        (GOOD[: GOOD.rindex("</") + 3].encode(), r"unclosed token at .*: .*ends too early, .*copy"),
        (GOOD.replace("</", "</x", 1).encode(), r"mismatched tag at line \d+, column \d+$"),
        (GOOD.replace("</layers>", "</layer>").encode(), r"mismatched tag at line 7, column \d+"),
        (b"<net version='11'/><net/>", "junk after document element at line 1"),
        (b'<net version="11" version="11"/>', "duplicate attribute at line 1"),
        (b'<net version="11" name="&undefined;"/>', "undefined entity at line 1"),
        (b'<net version="11" name="&#0;"/>', "invalid character number at line 1"),
        (
            GOOD.encode().replace(b"layer1", b"la\xffyer1"),
            r"not well-formed \(invalid token\) at line 5",
        ),
        (
            GOOD.replace("?>", ENTITY.join(["?>", ""])).encode(),
            "line 1: document type and entity declarations are refused",
        ),
        (
            b'<?xml version="1.0"?>\n' + LAUGHS.encode() + b"<z>&a9;</z>",
            "line 2: document type and entity declarations are refused",
        ),
        (
            b'<!DOCTYPE net SYSTEM "file:///etc/passwd"><net/>',
            "document type and entity declarations are refused",
        ),
        (b'<?xml version="1.0" encoding="klingon"?><net/>', "unknown encoding: klingon"),
        (
            b'<?xml version="1.0" encoding="shift_jis"?><net/>',
            "multi-byte encodings are not supported",
        ),
        (b'<?xml version="1.0" encoding="base64"?><net/>', "not readable as XML"),
        (GOOD.encode("utf-32"), r"not well-formed XML.* at line 1, column \d+$"),
        (
            b"<net version='11'>" + b"<a>" * 500 + b"</a>" * 500 + b"</net>",
            "line 1: elements are nested more than 200 deep",
        ),
        (b"<a>" * 200_000, "line 1: elements are nested more than 200 deep"),
        (
            b"<model version='11'/>",
            "expected <net> as the outermost element of an IR file, got <model>",
        ),
        (
            b"<net xmlns='http://x' version='11'/>",
            "expected <net> as the outermost element of an IR file, got <{http://x}net>",
        ),
        (b"<html><body>404</body></html>", "expected <net> .* got <html>"),
        (b"<net/>", "expected IR version 10 or 11, got none"),
        (b"<net version=''/>", "expected IR version 10 or 11, got none"),
        (
            b"<net version='7'/>",
            "expected IR version 10 or 11, got '7': convert the model with a current OpenVINO",
        ),
        (b"<net version='9'/>", "got '9': convert"),
        (b"<net version='12'/>", "got '12'$"),
        (b"<net version='11.0'/>", "got '11.0'$"),
        (b"<net version='" + b"9" * 5000 + b"'/>", r"got '9{37}\.\.\.'$"),
        ("<net version='²'/>".encode(), "got '²'$"),
        (
            GOOD.replace("</net>", "<pre-process/></net>").encode(),
            "has a <pre-process> section, which would change the inputs",
        ),
        (GOOD.replace("</net>", "<statistics/></net>").encode(), "has a <statistics> section"),
    ],
)
def test_not_a_model(tmp_path: Path, data: bytes, message: str) -> None:
    assert re.search(message, _bytes_refused(tmp_path, data))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(uncork.ReadError, match="cannot be read: No such file") as caught:
        uncork.load(tmp_path / "missing.xml")
    assert caught.value.where == str(tmp_path / "missing.xml")


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.encode("utf-16"),
        GOOD.encode("utf-16-le"),
        "\ufeff".encode("utf-16-be") + GOOD.encode("utf-16-be"),
        GOOD.replace("1.0", '1.0" encoding="utf-16').encode("utf-16"),
        GOOD.replace("1.0", '1.0" encoding="iso-8859-1')
        .replace("layer1", "überlayer1")
        .encode("latin-1"),
        GOOD.replace("1.0", '1.0" encoding="cp1252').encode("cp1252"),
        GOOD.replace('"', "'").encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.encode() + b"\n\n<!-- end -->",
        GOOD.split("\n", 1)[1].encode(),
    ],
    ids=[
        "UTF-8 BOM",
        "UTF-16",
        "UTF-16 without BOM",
        "UTF-16 BE",
        "UTF-16 declared",
        "latin-1",
        "cp1252",
        "quotes",
        "CRLF",
        "comment",
        "no declaration",
    ],
)
def test_every_way_to_write_it_is_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.xml"
    path.write_bytes(data)
    assert len(uncork.read_model(path).nodes) == 3


# ---- a model with something wrong in it: ValidationError, with every problem


def _with(change: Callable[[Net], object]) -> Net:
    net = simple()
    change(net)
    return net


def _set_layer(position: int, text: str) -> Callable[[Net], object]:
    return lambda net: net.layers.__setitem__(position, text)


def _set_edge(position: int, text: str) -> Callable[[Net], object]:
    return lambda net: net.edges.__setitem__(position, text)


def _relu(inputs: list[str], outputs: list[str]) -> Callable[[Net], object]:
    return _set_layer(1, layer(1, "ReLU", inputs, outputs))


def _more_inputs(net: Net) -> None:
    _relu([port(0, [2]), port(3, [2])], [port(1, [2])])(net)
    net.edges.append(edge("0:0", "1:3"))


def _fewer_inputs(net: Net) -> None:
    _relu([], [port(1, [2])])(net)
    net.edges.pop(0)


def _assign(net: Net) -> None:
    net.layers.append(
        layer(9, "Assign", [port(0, [2])], [port(1, [2])], version="opset6", variable_id="v")
    )
    net.edges.append(edge("0:0", "9:0"))


STRUCTURE = [
    (
        "two layers of one id",
        lambda n: n.layers.append(relu(1, name="twin")),
        "layer 'twin': id 1 is already that of layer 'layer1'",
    ),
    (
        "no id",
        _set_layer(1, relu("", name="x")),
        r"layer 'x': expected <layer> with an id \(a number\), a type and a version",
    ),
    ("id is text", _set_layer(1, relu("one")), "layer 'layerone': expected <layer> with an id"),
    ("negative id", _set_layer(1, relu(-1)), "layer 'layer-1': expected <layer> with an id"),
    (
        "no type",
        _set_layer(1, layer(1, "", [port(0)], [port(1)])),
        "layer 'layer1': expected <layer> with an id",
    ),
    (
        "no version",
        _set_layer(1, relu(1, version=None)),
        "layer 'layer1': expected <layer> with an id",
    ),
    (
        "no name",
        _set_layer(1, relu(1, version=None, name="")),
        "layer number 1: expected <layer> with an id",
    ),
    (
        "another element",
        _set_layer(1, relu(1).replace("layer ", "lair ").replace("/layer", "/lair")),
        "expected <layer>",
    ),
    (
        "edge to nowhere",
        _set_edge(1, edge("1:1", "20:0")),
        "edge 1:1 -> 20:0: there is no layer with id 20",
    ),
    (
        "edge from nowhere",
        _set_edge(1, edge("30:1", "2:0")),
        "edge 30:1 -> 2:0: there is no layer with id 30",
    ),
    (
        "edge of text",
        _set_edge(1, edge("one:1", "2:0")),
        "edge one:1 -> 2:0: expected four numbers: from-layer, from-port, to-layer, to-port",
    ),
    (
        "edge of floats",
        _set_edge(1, edge("1.0:1", "2:0")),
        "edge 1.0:1 -> 2:0: expected four numbers",
    ),
    (
        "half an edge",
        _set_edge(1, '<edge from-layer="1" from-port="1"/>'),
        "edge 1:1 -> nothing:nothing: expected four numbers",
    ),
    (
        "unknown output port",
        _set_edge(1, edge("1:5", "2:0")),
        r"layer 'layer1' \(ReLU@opset1, id 1\) has no output port 5; it has 1$",
    ),
    ("an input as source", _set_edge(1, edge("1:0", "2:0")), "has no output port 0; it has 1"),
    (
        "unknown input port",
        _set_edge(1, edge("1:1", "2:7")),
        r"layer 'layer2' \(Result@opset1, id 2\) has no input port 7; it has 0",
    ),
    (
        "edge into a source",
        lambda n: n.edges.append(edge("1:1", "0:0")),
        r"layer 'layer0' .* has no input port 0; it has none",
    ),
    (
        "two edges to a port",
        lambda n: n.edges.append(edge("0:0", "2:0")),
        r"edge 0:0 -> 2:0: input port 0 of layer 'layer2' .* has an edge already",
    ),
    (
        "no edge",
        lambda n: n.edges.pop(),
        r"layer 'layer2' \(Result@opset1, id 2\): input port 0 has no edge",
    ),
    (
        "its own input",
        _set_edge(0, edge("1:1", "1:0")),
        r"layer 'layer1' \(ReLU@opset1, id 1\): is its own input: the layers 'layer1' form a cycle",
    ),
    (
        "port id twice",
        _relu([port(0, [2]), port(0, [2])], [port(1, [2])]),
        "input port id: expected a number not used before, got '0'",
    ),
    (
        "port id of text",
        _relu([port(0, [2])], [port("x", [2])]),
        "output port id: expected a number not used before, got 'x'",
    ),
    (
        "no port id",
        _relu([port(0, [2])], [port(None, [2])]),
        "output port id: expected a number not used before, got nothing",
    ),
    (
        "no precision",
        _relu([port(0, [2])], [port(1, [2], None)]),
        "layer 'layer1' .*: output 0: expected a precision such as FP32 or I64, got nothing",
    ),
    (
        "unknown precision",
        _relu([port(0, [2])], [port(1, [2], "F99")]),
        "output 0: expected a precision such as FP32 or I64, got 'F99'",
    ),
    (
        "unknown input precision",
        _relu([port(0, [2], "F99")], [port(1, [2])]),
        "input 0: expected a precision such as FP32",
    ),
    (
        "dimension -2",
        _set_layer(1, relu(1, [-2])),
        r"layer 'layer1' .*: output 0: expected a dimension from -1 to 2\*\*63 - 1, got '-2'",
    ),
    (
        "dimension of text",
        _set_layer(1, relu(1, ["two"])),
        "output 0: expected a dimension from -1 to 2..63 - 1, got 'two'",
    ),
    ("dimension ?", _set_layer(1, relu(1, ["?"])), "got '\\?'"),
    ("empty dimension", _set_layer(1, relu(1, [""])), "got ''"),
    ("float dimension", _set_layer(1, relu(1, ["2.0"])), "got '2.0'"),
    ("dimension 2**63", _set_layer(1, relu(1, [2**63])), "got '9223372036854775808'"),
    ("a very long dimension", _set_layer(1, relu(1, ["1" * 9999])), r"got '1{37}\.\.\.'"),
    (
        "contradicting port",
        _relu([port(0, [2])], [port(1, [3])]),
        r"layer 'layer1' \(ReLU-1, id 1\): output 0: the file says f32\[3\], its inputs give "
        r"f32\[2\]",
    ),
    (
        "contradicting type",
        _relu([port(0, [2])], [port(1, [2], "I64")]),
        "output 0: the file says i64, its inputs give f32",
    ),
    (
        "contradicting input",
        _relu([port(0, [5])], [port(1, [2])]),
        r"layer 'layer1' .*: input 0: the file says f32\[5\] here and f32\[2\] at output 0 of "
        r"layer 'layer0' \(Parameter-1, id 0\)",
    ),
    (
        "contradicting input type",
        _relu([port(0, [2], "FP16")], [port(1, [2])]),
        r"input 0: the file says f16\[2\] here and f32\[2\] at output 0",
    ),
    (
        "too many outputs",
        _relu([port(0, [2])], [port(1, [2]), port(2, [2])]),
        "layer 'layer1' .*: expected 1 output ports, the file has 2",
    ),
    ("too many inputs", _more_inputs, r"layer 'layer1' .*: expected at most 1 inputs"),
    ("too few inputs", _fewer_inputs, r"layer 'layer1' .*: input '\w+' \(port 0\) is missing"),
    (
        "attribute missing",
        _set_layer(0, layer(0, "Parameter", outputs=[port(0, [2])], shape="2")),
        r"layer 'layer0' .*: attribute 'element_type' is missing",
    ),
    (
        "attribute of text",
        _set_layer(0, parameter(0, shape="two")),
        r"attribute 'shape': expected a shape such as .*, got 'two'",
    ),
    (
        "two attributes",
        _set_layer(0, layer(0, "Parameter", outputs=[port(0, [2])], shape="x", element_type="f99")),
        "attribute 'element_type': expected an element type.*; attribute 'shape': expected",
    ),
    (
        "no output",
        _set_layer(0, layer(0, "Parameter", shape="2", element_type="f32")),
        r"layer 'layer0' .*: has no output port",
    ),
    (
        "a result that is read",
        _set_layer(1, layer(1, "Result", [port(0, [2])], [port(1, [2])])),
        r"edge 1:1 -> 2:0: layer 'layer1' \(Result@opset1, id 1\) is where a value leaves the "
        r"model: no layer can read it there",
    ),
    ("no result", lambda n: n.layers.pop(), "has no Result layer: there is nothing to compute"),
    ("no layers", lambda n: n.layers.clear(), "has no Result layer"),
    (
        "assign without a variable",
        _assign,
        r"layer 'layer9' \(Assign-6, id 9\): assigns to variable 'v', which no ReadValue reads",
    ),
]


@pytest.mark.parametrize(
    ("change", "message"), [pytest.param(c, m, id=name) for name, c, m in STRUCTURE]
)
def test_structure(tmp_path: Path, change: Callable[[Net], object], message: str) -> None:
    error = refusal(_with(change).save(tmp_path))
    assert isinstance(error, uncork.ValidationError)
    assert re.search(message, str(error), re.MULTILINE), str(error)


def test_a_net_with_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text('<net version="11"/>')
    error = refusal(path)
    assert [str(p) for p in error.problems] == ["has no <layers>"]


def test_a_long_cycle_is_named_in_its_order(tmp_path: Path) -> None:
    layers = [parameter(0), *(relu(i, name=f"n{i}") for i in range(1, 5)), result(9)]
    edges = [
        edge("4:1", "1:0"),
        *(edge(f"{i}:1", f"{i + 1}:0") for i in range(1, 4)),
        edge("3:1", "9:0"),
    ]
    error = refusal(Net(layers, edges).save(tmp_path))
    assert [str(p) for p in error.problems] == [
        "layer 'n3' (ReLU@opset1, id 3): is its own input: the layers 'n4' -> 'n1' -> 'n2' -> "
        "'n3' form a cycle"
    ]


def test_missing_operations_are_listed_with_their_layers(tmp_path: Path) -> None:
    names = [f"n{i}" for i in range(7)]
    layers = [
        parameter(0, name="p"),
        *(
            layer(i + 1, "Frobnicate", [port(0, [2])], [port(1, [2])], name=n)
            for i, n in enumerate(names)
        ),
    ]
    layers += [
        layer(8, "Relu6", [port(0, [2])], [port(1, [2])]),
        layer(9, "gather", [port(0, [2])], [port(1, [2])], version="opset8"),
    ]
    layers += [
        layer(10, "Gather", [port(0, [2])], [port(1, [2])], version="private"),
        layer(11, "GRUSequence", [port(0, [2])], [port(1, [2])]),
    ]
    layers += [
        layer(12, "Gather", [port(0, [2])], [port(1, [2])], version="opset99999"),
        result(13),
    ]
    edges = [edge("0:0", "1:0"), *(edge(f"{i}:1", f"{i + 1}:0") for i in range(1, 13))]
    error = refusal(Net(layers, edges).save(tmp_path))
    assert isinstance(error, uncork.UnsupportedError)
    assert isinstance(error, NotImplementedError)
    texts = [str(p) for p in error.problems]
    assert (
        texts[0]
        == "operation Frobnicate@opset1 is not supported (layers 'n0', 'n1', 'n2', 'n3', 'n4' "
        "and 2 more)"
    )
    assert texts[1].startswith(
        "operation Relu6@opset1 is not supported (layer 'layer8'); did the file mean ReLU?"
    )
    assert texts[2].endswith("(layer 'layer9'); did the file mean Gather?")
    assert texts[3].endswith("(layer 'layer11'); GRUSequence is known from opset5 on")
    assert texts[4].endswith("(layer 'layer12'); there is no opset99999")
    assert texts[5].startswith(
        "operation Gather@private (layer 'layer10') is a custom operation of an extension, and "
        "extensions"
    )


def test_custom_operations_are_called_so(tmp_path: Path) -> None:
    """All of an extension in one problem, which names the package where the file does; no operation
    is suggested instead.
    """
    types = ["RegexNormalization", "StringTensorUnpack", "RegexNormalization"]
    layers = [
        parameter(0),
        *(
            layer(i, t, [port(0, [2])], [port(1, [2])], version="extension")
            for i, t in enumerate(types, 1)
        ),
        result(4),
    ]
    edges = [edge("0:0", "1:0"), *(edge(f"{i}:1", f"{i + 1}:0") for i in range(1, 4))]
    error = refusal(Net(layers, edges).save(tmp_path))
    assert isinstance(error, uncork.UnsupportedError)
    (problem,) = error.problems
    assert str(problem).startswith(
        "operations RegexNormalization@extension, StringTensorUnpack@extension (layers 'layer1', "
        "'layer3', 'layer2') "
        "are custom operations of an extension, and extensions of OpenVINO cannot be loaded: "
    )
    tail = (
        '<rt_info><openvino_version value="2026.4"/><openvino_tokenizers_version '
        'value="2026.4"/></rt_info>'
    )
    error = refusal(Net(layers, edges, tail=tail).save(tmp_path))
    assert "of openvino_tokenizers, and openvino_tokenizers cannot be loaded" in str(error)
    assert "did the file mean" not in str(error)


def test_every_problem_in_one_error(tmp_path: Path) -> None:
    """Five faults of five kinds, each with its layer, whatever else is missing."""
    layers = [
        parameter(0, name="in"),
        layer(1, "ReLU", [port(0, [2])], [port(1, [2], "F99")], name="bad precision"),
        constant(2, "f32", "2", 0, 4, name="short constant"),
        layer(
            3,
            "Add",
            [port(0, [2]), port(1, [2])],
            [port(2, [2])],
            name="no edge",
            auto_broadcast="numpy",
        ),
        layer(
            4,
            "Gather",
            [port(0, [2]), port(1, [2]), port(2, [2])],
            [port(3, [2])],
            version="opset8",
            name="float ids",
        ),
        layer(5, "Frobnicate", [port(0, [2])], [port(1, [2])], name="unknown"),
        layer(5, "ReLU", [port(0, [2])], [port(1, [2])], name="same id"),
        result(6, name="out"),
        result(7, name="out2"),
    ]
    edges = [
        edge("0:0", "1:0"),
        edge("1:1", "3:0"),
        edge("3:2", "4:0"),
        edge("2:0", "4:1"),
        edge("2:0", "4:2"),
    ]
    edges += [edge("4:3", "5:0"), edge("5:1", "6:0"), edge("0:0", "7:0"), edge("0:0", "99:0")]
    error = refusal(Net(layers, edges).save(tmp_path, bytes(8)))
    assert isinstance(error, uncork.ValidationError)
    text = str(error)
    assert text.startswith(f"{tmp_path / 'model.xml'}: 7 problems:\n  1. ")
    for expected in (
        "layer 'same id': id 5 is already that of layer 'unknown'",
        "edge 0:0 -> 99:0: there is no layer with id 99",
        "layer 'bad precision' (ReLU@opset1, id 1): output 0: expected a precision",
        "layer 'short constant' (Const@opset1, id 2): expected 8 bytes for f32[2], the attribute "
        "'size' says 4",
        "layer 'no edge' (Add@opset1, id 3): input port 1 has no edge",
        "layer 'float ids' (Gather-8, id 4): input 'indices' (port 1): expected an integer type",
        "operation Frobnicate@opset1 is not supported (layer 'unknown')",
    ):
        assert expected in text
    assert len(error.problems) == 7


# ---- constants


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (None, 8, "attribute 'offset': expected a number of bytes, got nothing"),
        (0, None, "attribute 'size': expected a number of bytes, got nothing"),
        (-1, 8, "attribute 'offset': expected a number of bytes, got '-1'"),
        (0, -8, "attribute 'size': expected a number of bytes, got '-8'"),
        ("1.5", 8, "attribute 'offset': expected a number of bytes, got '1.5'"),
        (0, "8e0", "attribute 'size': expected a number of bytes, got '8e0'"),
        (0, "eight", "attribute 'size': expected a number of bytes, got 'eight'"),
        (0, "", "attribute 'size': expected a number of bytes, got ''"),
        ("1" * 50, 8, r"attribute 'offset': expected a number of bytes, got '1{37}\.\.\.'"),
        (10**30, 8, f"expected bytes {10**30} to {10**30 + 8} in 'model.bin', which has 8 bytes"),
        (0, 10**30, f"expected bytes 0 to {10**30} in 'model.bin', which has 8 bytes"),
        (2**64 - 8, 16, "expected bytes 18446744073709551608 to 18446744073709551624"),
        (1, 8, "expected bytes 1 to 9 in 'model.bin', which has 8 bytes"),
        (8, 8, "expected bytes 8 to 16"),
        (0, 7, r"expected 8 bytes for f32\[2\], the attribute 'size' says 7"),
        (0, 0, r"expected 8 bytes for f32\[2\], the attribute 'size' says 0"),
    ],
)
def test_constant_ranges(tmp_path: Path, offset: object, size: object, message: str) -> None:
    error = refusal(one_constant("f32", "2", offset, size).save(tmp_path, bytes(8)))
    assert isinstance(error, uncork.ValidationError)
    assert re.search(r"layer 'layer0' \(Const@opset1, id 0\): " + message, str(error)), str(error)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("-5, -2", "attribute 'shape': expected a shape|must be static"),
        ("-1", "a constant's shape must be static, got"),
        ("?", "a constant's shape must be static, got"),
        ("1..2", "a constant's shape must be static"),
        ("...", "a constant's shape must be static"),
        ("2.0", "attribute 'shape': expected a shape such as .*, got '2.0'"),
        ("two", "got 'two'"),
        ("2;2", "got '2;2'"),
        (
            "1000000000000, 1000000",
            r"expected 4000000000000000000 bytes for f32\[1000000000000,1000000\], the attribute "
            r"'size' says 8",
        ),
        ("4611686018427387904, 8", "expected 147573952589676412928 bytes"),
        (", ".join(["1"] * 10_000), "expected at most 32 dimensions, got 10000"),
        (
            f"0, {2**62}, 4",
            r"expected a shape of less than 2\*\*63 bytes, got \[0,4611686018427387904,4\]",
        ),
        (f"0, {10**30}", "attribute 'shape': expected a shape such as"),
    ],
)
def test_constant_shapes(tmp_path: Path, shape: str, message: str) -> None:
    net = Net(
        [
            layer(0, "Const", outputs=[port(0)], element_type="f32", shape=shape, offset=0, size=8),
            result(1, []),
        ],
        [edge("0:0", "1:0")],
    )
    error = refusal(net.save(tmp_path, bytes(8)))
    assert re.search(r"layer 'layer0' .*" + message, str(error)), str(error)[:400]


def test_weights_file_missing_or_empty(tmp_path: Path) -> None:
    path = one_constant("f32", "2", 0, 8).save(tmp_path)
    message = (
        "the weights file '{}' cannot be read: No such file or directory. The model's one "
        "constant lies in it and needs 8 bytes"
    )
    assert message.format(path.with_suffix(".bin")) in str(refusal(path))
    path.with_suffix(".bin").write_bytes(b"")
    assert "expected bytes 0 to 8 in 'model.bin', which has 0 bytes" in str(refusal(path))
    path.with_suffix(".bin").unlink()
    path.with_suffix(".bin").mkdir()
    assert "model.bin' cannot be read: it is a folder, expected an ordinary file" in str(
        refusal(path)
    )


STRING = {"count": 2, "offsets": (0, 1, 3), "text": b"abc"}


@pytest.mark.parametrize(
    ("count", "offsets", "text", "message"),
    [
        (3, (0, 1, 3), b"abc", "the shape has 2 elements, the data says 3"),
        (2, (1, 1, 3), b"abc", "the offsets must start at 0, not decrease and end within the data"),
        (2, (0, 2, 1), b"abc", "the offsets must start at 0"),
        (2, (0, 1, 4), b"abc", "the offsets must start at 0"),
        (2, (0, 1, 2**32 - 1), b"abc", "the offsets must start at 0"),
        (2, (0, 1), b"", "expected a table of 16 bytes for 2 strings, got 12 bytes"),
        (2, (0, 1, 3), b"a\xff\xfe", r"element 1 is not UTF-8 \(invalid start byte at byte 0\)"),
    ],
)
def test_string_constants(
    tmp_path: Path, count: int, offsets: tuple[int, ...], text: bytes, message: str
) -> None:
    data = b"".join(n.to_bytes(4, "little") for n in (count, *offsets)) + text
    error = refusal(one_constant("string", "2", 0, len(data)).save(tmp_path, data))
    assert re.search("layer 'layer0' .*: string constant: " + message, str(error)), str(error)


# ---- bodies


def _nested(depth: int) -> Net:
    """A TensorIterator in a TensorIterator in ..."""
    port_map = (
        '<port_map><input external_port_id="0" internal_layer_id="0"/><output '
        'external_port_id="1" internal_layer_id="2"/></port_map>'
    )
    middle = relu(1)
    for _ in range(depth):
        net = Net(
            [parameter(0), middle, result(2)], [edge("0:0", "1:0"), edge("1:1", "2:0")], tail=""
        )
        middle = layer(
            1,
            "TensorIterator",
            [port(0, [2])],
            [port(1, [2])],
            inner=f"{port_map}<body>{net.body}</body>",
        )
    return Net([parameter(0), middle, result(2)], [edge("0:0", "1:0"), edge("1:1", "2:0")])


def test_bodies_in_bodies_have_a_limit(tmp_path: Path) -> None:
    error = refusal(_nested(34).save(tmp_path))
    assert "sub-graphs are nested more than 32 deep" in str(error)
    assert "elements are nested more than 200 deep" in str(refusal(_nested(80).save(tmp_path)))


def test_a_problem_in_a_body_says_which(tmp_path: Path) -> None:
    net = str(_nested(1)).replace(
        '<dim>2</dim></port></output></layer>\n<layer id="2"',
        '<dim>q</dim></port></output></layer>\n<layer id="2"',
    )
    path = tmp_path / "model.xml"
    path.write_text(net.replace('type="ReLU"', 'type="Frobnicate"', 1))
    text = str(refusal(path))
    assert (
        "layer 'layer1' (TensorIterator@opset1, id 1) <body>: layer 'layer1' (Frobnicate@opset1, "
        "id 1): output 0: " in text
    )
    assert "operation Frobnicate@opset1 is not supported" in text
