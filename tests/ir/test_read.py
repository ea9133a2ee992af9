"""Reading: what is kept of a file, which liberties a file may take, and versions 10 and 11."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.ir._files import Net, constant, edge, layer, parameter, port, relu, result, simple
from uncork.ir.model import Source, XmlElement, join_names, split_names
from uncork.ir.read import read_structure
from uncork.types import DYNAMIC, Dimension, ElementType, PartialShape


def test_a_simple_model(tmp_path: Path) -> None:
    model = uncork.read_model(simple().save(tmp_path))
    assert (model.name, model.ir_version) == ("net", 11)
    assert [(n.id, n.name, n.type_name, n.opset) for n in model.nodes] == [
        (0, "layer0", "Parameter", "opset1"),
        (1, "layer1", "ReLU", "opset1"),
        (2, "layer2", "Result", "opset1"),
    ]
    assert (model.parameters, model.results, model.sinks) == ((0,), (2,), ())
    assert model.by_id[1].inputs == (Source(0, 0),)
    assert str(model.spec(Source(1, 0))) == "f32[2]"
    assert model.by_id[0].attributes == {"shape": "2", "element_type": "f32"}


def test_unknown_parts_are_ignored_or_kept(tmp_path: Path) -> None:
    net = simple(
        tail='<meta_data><x value="1"/></meta_data><rt_info><info name="a" value="b"/></rt_info>'
    )
    net.layers[1] = relu(1, future="yes", inner="<!-- a comment --><?pi?>", more=" colour='red'")
    model = uncork.read_model(net.save(tmp_path))
    assert [e.tag for e in model.extras] == ["meta_data", "rt_info"]
    assert model.by_id[1].attributes == {"future": "yes"}
    assert model.by_id[1].layer_attributes == (("colour", "red"),)


def test_runtime_information_is_kept_everywhere(tmp_path: Path) -> None:
    def info(value: str) -> str:
        return f'<rt_info><attribute name="fused_names" version="0" value="{value}"/></rt_info>'

    def kept(value: str) -> tuple[XmlElement, ...]:
        inner = XmlElement(
            "attribute", (("name", "fused_names"), ("version", "0"), ("value", value))
        )
        return (XmlElement("rt_info", children=(inner,)),)

    net = simple(tail="<rt_info><a><b value='c'/></a></rt_info>")
    net.layers[1] = layer(
        1,
        "ReLU",
        [port(0, [2], inner=info("in"))],
        [port(1, [2], inner=info("out"))],
        inner=info("node"),
    )
    model = uncork.read_model(net.save(tmp_path))
    node = model.by_id[1]
    assert node.extras == kept("node")
    assert node.outputs[0].extras == kept("out")
    assert node.input_extras == (kept("in"),)
    assert model.extras == (
        XmlElement(
            "rt_info", children=(XmlElement("a", children=(XmlElement("b", (("value", "c"),)),)),)
        ),
    )
    uncork.write_model(model, tmp_path / "again.xml")
    again = uncork.read_model(tmp_path / "again.xml")
    assert (again.by_id[1].extras, again.by_id[1].input_extras, again.extras) == (
        node.extras,
        node.input_extras,
        model.extras,
    )
    assert again.by_id[1].outputs[0].extras == kept("out")


def test_ids_ports_and_order_are_free(tmp_path: Path) -> None:
    """Ids need not be dense, layers may come in any order, port ids are names, and inputs and
    outputs number on their own.
    """
    concat = layer(700, "Concat", [port(9, [2]), port(4, [2])], [port(9, [4])], axis=0)
    layers = [result(5, [4]), concat, parameter(41, name="b"), relu(3), parameter(7, name="a")]
    edges = [edge("700:9", "5:0"), edge("3:1", "700:9"), edge("41:0", "700:4"), edge("7:0", "3:0")]
    model = uncork.read_model(Net(layers, edges).save(tmp_path))
    assert model.by_id[700].inputs == (Source(3, 0), Source(41, 0))
    assert model.parameters == (41, 7)
    assert [n.id for n in model.nodes].index(3) < [n.id for n in model.nodes].index(700)
    compiled = uncork.compile_model(model)
    (out,) = compiled({"a": np.array([-1, 1], np.float32), "b": np.array([-2, 2], np.float32)})
    assert out.tolist() == [0, 1, -2, 2]


def test_parameters_and_results_keep_the_order_of_the_file(tmp_path: Path) -> None:
    layers = [
        result(9, name="second"),
        parameter(8, name="y"),
        result(1, name="first"),
        parameter(2, name="x"),
        parameter(5, name="unused"),
    ]
    model = uncork.read_model(Net(layers, [edge("2:0", "9:0"), edge("8:0", "1:0")]).save(tmp_path))
    assert model.parameters == (8, 2, 5), "one that nothing uses is still an input, as in OpenVINO"
    assert model.results == (9, 1)
    out = uncork.compile_model(model)(*(np.full(2, v, np.float32) for v in (8, 2, 5)))
    assert [a[0] for a in out] == [2, 8]


def test_layers_that_nothing_needs_are_not_looked_at(tmp_path: Path) -> None:
    net = simple()
    net.layers += [
        layer(10, "FromTheFuture", [port(0)], [port(1, ["?"], "F99")], version="opset99"),
        layer(11, "Const", outputs=[port(0)], element_type="f32", shape="-5", offset="x", size="1"),
        layer(12, "ReLU", [port(0), port(0), port("q")], [port(1)]),
    ]
    net.edges += [edge("0:0", "10:0"), edge("10:1", "12:0")]
    model = uncork.read_model(net.save(tmp_path))
    assert [n.id for n in model.nodes] == [0, 1, 2]


def test_layers_may_share_a_name(tmp_path: Path) -> None:
    net = Net(
        [parameter(0, name="x"), relu(1, name="x"), result(2, name="x")],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )
    assert [n.name for n in uncork.read_model(net.save(tmp_path)).nodes] == ["x"] * 3


@pytest.mark.parametrize("spelling", ["Constant", "Const"])
@pytest.mark.parametrize("kind", ["ReLU", "Relu"])
def test_renamed_types(tmp_path: Path, spelling: str, kind: str) -> None:
    layers = [
        layer(0, spelling, outputs=[port(0, [2])], element_type="f32", shape="2", offset=0, size=8),
        layer(1, kind, [port(0, [2])], [port(1, [2])]),
        result(2),
    ]
    net = Net(layers, [edge("0:0", "1:0"), edge("1:1", "2:0")])
    model = uncork.read_model(net.save(tmp_path, np.array([-1, 3], "<f4").tobytes()))
    assert uncork.compile_model(model)()[0].tolist() == [0, 3]


def test_any_opset_that_has_the_operation(tmp_path: Path) -> None:
    net = simple()
    net.layers[1] = relu(1, version="opset16")
    net.layers[0] = parameter(0, version="opset5")
    model = uncork.read_model(net.save(tmp_path))
    assert model.by_id[1].operation.label() == "ReLU-1"
    assert model.by_id[1].opset == "opset16"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2,3", PartialShape([2, 3])),
        (" 2 , 3", PartialShape([2, 3])),
        ("?,3", PartialShape([None, 3])),
        ("-1,3", PartialShape([None, 3])),
        ("1..8,..4,2..", PartialShape([Dimension(1, 8), Dimension(0, 4), Dimension(2)])),
        ("...", PartialShape()),
        ("", PartialShape([])),
    ],
)
def test_parameter_shapes(tmp_path: Path, text: str, expected: PartialShape) -> None:
    dims = [] if expected.rank is None else [int(d) if d.is_static else -1 for d in expected]
    net = Net(
        [parameter(0, dims, shape=text), relu(1, dims), result(2, dims)],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )
    model = uncork.read_model(net.save(tmp_path))
    assert model.spec(Source(0, 0)).shape == expected
    assert model.spec(Source(1, 0)).shape == expected


@pytest.mark.parametrize("element_type", ElementType)
def test_both_spellings_of_every_element_type(tmp_path: Path, element_type: ElementType) -> None:
    net = Net(
        [parameter(0, [2], element_type.ir_name), result(1, [2], element_type.name)],
        [edge("0:0", "1:0")],
    )
    assert uncork.read_model(net.save(tmp_path)).spec(Source(0, 0)).element_type is element_type


def test_a_port_without_dimensions_is_a_scalar_or_of_unknown_rank(tmp_path: Path) -> None:
    for shape, rank in (("", 0), ("...", None)):
        net = Net(
            [parameter(0, [], shape=shape), relu(1, []), result(2, [])],
            [edge("0:0", "1:0"), edge("1:1", "2:0")],
        )
        assert uncork.read_model(net.save(tmp_path)).spec(Source(1, 0)).rank == rank


def test_ports_may_say_less_than_is_known(tmp_path: Path) -> None:
    net = simple()
    net.layers[1] = layer(1, "ReLU", [port(0, [-1], None)], [port(1, [-1])])
    net.layers[2] = layer(2, "Result", ["<port id='0'/>"])
    model = uncork.read_model(net.save(tmp_path))
    assert model.spec(Source(1, 0)).shape == [2]


def test_early_converters_wrote_some_operations_too_early(tmp_path: Path) -> None:
    from uncork.ops import find

    if find("MVN", 2) is None:
        pytest.skip("MVN-2 is not there")
    net = simple()
    net.layers[1] = layer(
        1,
        "MVN",
        [port(0, [2])],
        [port(1, [2])],
        across_channels="true",
        normalize_variance="false",
        eps="1e-9",
    )
    uncork.read_model(net.save(tmp_path))


# ---- names


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("a,b", ("a", "b")),
        (r"a\,b", ("a,b",)),
        (r"a\\,b", ("a\\,b",)),
        (r"a\\\,b", (r"a\\,b",)),
        (r"a\b\\c", (r"a\b\\c",)),
        ("a\\", ("a\\",)),
        (r"a\,", ("a,",)),
        (",a", ("a",)),
        ("a,,b,", ("a", "b")),
        (" a , b ", (" a ", " b ")),
        ("", ()),
        ("a,a", ("a",)),
        (r"\,", (",",)),
        (r"a\c,b", (r"a\c", "b")),
    ],
)
def test_names_as_openvino_reads_them(written: str, names: tuple[str, ...]) -> None:
    """The pairs are OpenVINO 2026.4.1's answers."""
    assert split_names(written) == names
    assert split_names(join_names(names)) == names


def test_a_name_that_ends_in_a_backslash_goes_last() -> None:
    assert join_names(("a\\", "b")) == "b,a\\"
    with pytest.raises(
        uncork.ValidationError, match=r"one name that ends in a backslash, got 'a.*', 'b"
    ):
        join_names(("a\\", "b\\"))


def test_output_names_of_a_result_come_first(tmp_path: Path) -> None:
    net = simple()
    net.layers[1] = layer(1, "ReLU", [port(0, [2])], [port(1, [2], names="mid,old")])
    net.layers[2] = result(2, more=' output_names="scores,old"')
    model = uncork.read_model(net.save(tmp_path))
    assert model.names_of_output(0) == ("scores", "old", "mid", "layer2", "layer1")


def test_version_10_names_tensors_by_their_layer(tmp_path: Path) -> None:
    split = layer(
        1,
        "Split",
        [port(0, [2]), port(1, [], "I64")],
        [port(2, [1], names="left"), port(3, [1])],
        name="cut",
        num_splits=2,
    )
    axis = constant(2, "i64", "", 0, 8)
    layers = [
        parameter(0, name="in", names="t"),
        split,
        axis,
        relu(3, [1], name="rl"),
        result(4, [1], name="r4"),
        result(5, [1], name="r5"),
    ]
    edges = [
        edge("0:0", "1:0"),
        edge("2:0", "1:1"),
        edge("1:2", "3:0"),
        edge("3:1", "4:0"),
        edge("1:3", "5:0"),
    ]
    model, _ = read_structure(Net(layers, edges, version=10).save(tmp_path, bytes(8)))
    assert model.ir_version == 10
    assert model.names_of_input(0) == ("t", "in")
    assert model.names_of_output(0) == ("rl", "r4")
    assert model.names_of_output(1) == ("cut.1", "r5")


def test_a_layer_name_that_could_mean_two_ports_means_none(tmp_path: Path) -> None:
    """A tensor called as another output's layer must be found under that name, not the other
    output.
    """
    layers = [
        parameter(0, name="x", names="y"),
        parameter(1, name="other", names="x"),
        layer(2, "ReLU", [port(0, [2])], [port(1, [2], names="first")], name="b"),
        layer(3, "Negative", [port(0, [2])], [port(1, [2], names="b")], name="c"),
        result(4, name="c"),
        result(5, name="r"),
    ]
    edges = [edge("0:0", "2:0"), edge("1:0", "3:0"), edge("2:1", "4:0"), edge("3:1", "5:0")]
    compiled = uncork.load(Net(layers, edges).save(tmp_path))
    assert [p.names for p in compiled.inputs] == [("y",), ("x", "other")]
    assert [p.names for p in compiled.outputs] == [("first",), ("b", "r")]
    one, two = np.array([1, 1], np.float32), np.array([2, 2], np.float32)
    out = compiled({"y": one, "x": two})
    assert out["b"].tolist() == [-2, -2]


# ---- bodies


def _if_net(inner: str = "", condition: str = "BOOL") -> Net:
    body = simple().body
    other = body.replace("ReLU", "Negative")
    maps = "".join(
        f'<{k}_port_map><input external_port_id="7" internal_layer_id="0"/><output '
        f'external_port_id="9" internal_layer_id="2"/></{k}_port_map>'
        for k in ("else", "then")
    )
    branch = layer(
        3,
        "If",
        [port(5, [], condition), port(7, [2])],
        [port(9, [2])],
        version="opset8",
        inner=f"{inner}<then_body>{body}</then_body>{maps}<else_body>{other}</else_body>",
    )
    layers = [parameter(1, [], condition, name="c"), parameter(0, name="x"), branch, result(4)]
    return Net(layers, [edge("1:0", "3:5"), edge("0:0", "3:7"), edge("3:9", "4:0")])


def test_bodies_are_kept_and_run(tmp_path: Path) -> None:
    path = _if_net(inner="<rt_info><a/></rt_info>").save(tmp_path)
    model = uncork.read_model(path)
    node = model.by_id[3]
    assert [tag for tag, _ in node.bodies] == ["then_body", "else_body"]
    assert [n.type_name for n in node.bodies[1][1].nodes] == ["Parameter", "Negative", "Result"]
    x = np.array([-1, 2], np.float32)
    compiled = uncork.compile_model(model)
    assert compiled(np.array(True), x)[0].tolist() == [0, 2]
    assert compiled(np.array(False), x)[0].tolist() == [1, -2]
    uncork.write_model(model, tmp_path / "again.xml")
    again = uncork.load(tmp_path / "again.xml")
    assert again(np.array(False), x)[0].tolist() == [1, -2]


def test_dynamic_dimensions_of_ports(tmp_path: Path) -> None:
    net = Net(
        [parameter(0, [-1, 3]), relu(1, [-1, 3]), result(2, [-1, 3])],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )
    assert uncork.read_model(net.save(tmp_path)).spec(Source(1, 0)).shape[0] == DYNAMIC
