"""Writes docs/change_one_line.md: `python -m tools.one_line_page` (`--check` only compares, exit 1
when stale).

Which attributes of OpenVINO's objects `uncork.openvino` has, ignores and refuses is said here; a
test holds the package to it, and the list of names to OpenVINO itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.pages import cell, write_or_check
from uncork.openvino import _config

PAGE = Path(__file__).resolve().parent.parent / "docs" / "change_one_line.md"
#: The public attributes of the objects of OpenVINO 2026.4.
NAMES = {
    "Core": (
        "add_extension available_devices compile_model create_context get_available_devices "
        "get_default_context get_property get_versions import_model query_model read_model "
        "register_plugin register_plugins set_property unload_plugin"
    ),
    "Model": (
        "add_outputs add_parameters add_results add_sinks add_variables clone dynamic evaluate "
        "friendly_name get_friendly_name get_name get_ops get_ordered_ops get_output_element_type "
        "get_output_op get_output_partial_shape get_output_shape get_output_size "
        "get_parameter_index get_parameters get_result get_result_index get_results get_rt_info "
        "get_sink_index get_sinks get_variable_by_id get_variables has_rt_info input inputs "
        "is_dynamic name output outputs parameters remove_parameter remove_result remove_sink "
        "remove_variable replace_parameter reshape result results rt_info set_friendly_name "
        "set_rt_info sinks validate_nodes_and_infer_types variables"
    ),
    "CompiledModel": (
        "create_infer_request export_model get_property get_runtime_model infer_new_request input "
        "inputs output outputs query_state release_memory reset_state set_property"
    ),
    "InferRequest": (
        "cancel get_compiled_model get_input_tensor get_output_tensor get_profiling_info "
        "get_tensor infer input_tensors latency model_inputs model_outputs output_tensors "
        "profiling_info query_state reset_state results set_callback set_input_tensor "
        "set_input_tensors set_output_tensor set_output_tensors set_tensor set_tensors "
        "start_async userdata wait wait_for"
    ),
    "AsyncInferQueue": ("get_idle_request_id is_ready set_callback start_async userdata wait_all"),
    "Tensor": (
        "byte_size bytes_data copy_from copy_to data element_type get_byte_size get_element_type "
        "get_shape get_size get_strides is_continuous set_shape shape size str_data strides"
    ),
    "Node": (
        "constructor_validate_and_infer_types evaluate friendly_name get_attributes "
        "get_element_type get_friendly_name get_input_element_type get_input_partial_shape "
        "get_input_shape get_input_size get_input_tensor get_instance_id get_name "
        "get_output_element_type get_output_partial_shape get_output_shape get_output_size "
        "get_output_tensor get_rt_info get_type_info get_type_name input input_value input_values "
        "inputs name output outputs rt_info set_argument set_arguments set_attribute "
        "set_friendly_name set_output_size set_output_type set_rt_info shape type_info "
        "validate_and_infer_types visit_attributes"
    ),
    "Output": (
        "add_names any_name element_type get_any_name get_element_type get_index get_names "
        "get_node get_partial_shape get_rt_info get_shape get_target_inputs get_tensor index "
        "names node partial_shape remove_target_input replace rt_info set_names set_rt_info shape "
        "target_inputs tensor"
    ),
    "Input": (
        "get_element_type get_index get_node get_partial_shape get_rt_info get_shape "
        "get_source_output get_tensor replace_source_output rt_info set_rt_info"
    ),
    "Type": (
        "bf16 bitwidth boolean compatible dynamic f16 f32 f4e2m1 f64 f8e4m3 f8e5m2 f8e8m0 "
        "get_bitwidth get_size get_type_name i16 i32 i4 i64 i8 integral integral_number "
        "is_dynamic is_integral is_integral_number is_quantized is_real is_signed is_static merge "
        "nf4 quantized real signed size string to_dtype to_string type_name u1 u16 u2 u3 u32 u4 "
        "u6 u64 u8"
    ),
    "PartialShape": (
        "all_non_negative compatible dynamic get_dimension get_max_shape get_min_shape get_shape "
        "is_dynamic is_static rank refines relaxes same_scheme to_shape to_string"
    ),
    "Dimension": (
        "compatible dynamic get_length get_max_length get_min_length get_symbol has_symbol "
        "is_dynamic is_static max_length min_length refines relaxes same_scheme set_symbol "
        "to_string"
    ),
    "Layout": ("empty get_index_by_name has_name scalar to_string"),
}
#: Those that do nothing, and why that is right.
IGNORED = {
    "Model.add_variables": "a model has the variables that its nodes name",
    "Model.remove_variable": "a model has the variables that its nodes name",
    "InferRequest.cancel": "a call that was begun ends by itself",
}
#: Those that raise an error, which says what to do.
REFUSED = {
    "Core.add_extension": "operations that uncork does not know are refused, by name",
    "Core.create_context": "no remote memory: the CPU's only",
    "Core.get_default_context": "no remote memory: the CPU's only",
    "Core.register_plugin": "no plugins",
    "Core.register_plugins": "no plugins",
    "Core.unload_plugin": "no plugins",
    "CompiledModel.set_property": "properties are given to `compile_model`",
    "Node.set_output_size": "follows from the operation",
    "Node.set_output_type": "follows from the operation",
    "Node.visit_attributes": "`get_attributes()`, `set_attribute(name, value)`",
    "Output.remove_target_input": "`target.replace_source_output(output)`",
    "Dimension.get_symbol": "sizes have no symbols in this API",
    "Dimension.has_symbol": "sizes have no symbols in this API",
    "Dimension.set_symbol": "sizes have no symbols in this API",
}
HEAD = """# Change one line

Generated by `python -m tools.one_line_page`; a test fails when it is stale.

    import uncork.openvino as ov        # was: import openvino as ov

That is OpenVINO's Python API over uncork: models are read, checked and run by uncork, and OpenVINO
need not be installed. `from openvino import ...` becomes `from uncork.openvino import ...`,
`openvino.preprocess`, `openvino.properties` and `openvino.opset13` are below `uncork.openvino`,
too. `import uncork` loads nothing of it.

Errors are uncork's, with every problem in them, and RuntimeErrors besides: `except RuntimeError`
goes on working. What is different on purpose:

- every model is checked when it is read, and one error lists every problem;
- f32 is computed as f32 unless `INFERENCE_PRECISION_HINT` says bf16. f16 is computed as f32;
- numbers of another type become those of the input, as OpenVINO converts them, but for integers
  that would change: those are an error, with the number and its place;
- `compiled(...)` may be called from several threads at once; what it gives is the caller's own;
- where OpenVINO's answers differ from the specification, uncork follows the specification
  ([README](../README.md#what-is-different-from-openvino));
- numbers of Python in `x + 1` and in functions of opsets take the type of the other side;
- names that OpenVINO makes itself (`Result_12`) have other numbers.

`convert_model` gives a model of uncork of whatever OpenVINO's own package converts, where that is
installed; of a `model.xml` without it. Models of `uncork.openvino` can be changed in place;
uncork's own do not change ([openvino.md](openvino.md) is about those).

## Attributes

Of {count} public attributes of these objects {same} work as in OpenVINO.

| object | works | does nothing | refused |
|---|---|---|---|
"""
FUNCTIONS = """
## What else is there

| module | what of it |
|---|---|
| `opset1` .. `opset16` | the functions of OpenVINO's |
| `preprocess` | `PrePostProcessor` with its steps, as layers; not planes as inputs of their own |
| `properties` | the names and values of properties, as below |
| `op` | `Constant`, `Parameter`, `Result`, to tell nodes apart and to make them |
| `layout_helpers`, `get_batch`, `set_batch` | the same |
| extensions, remote tensors, `frontend` | refused in a sentence |

## Properties

| property | what becomes of it |
|---|---|
"""
TAKEN = {
    "INFERENCE_NUM_THREADS": "taken: the most threads of a call",
    "INFERENCE_PRECISION_HINT": "taken: f32, bf16 (products, convolutions, attention and recurrent "
    "layers) or f16 (as f32)",
    "NUM_STREAMS": "taken: threads are shared among so many calls; the size of an AsyncInferQueue",
    "PERFORMANCE_HINT": "taken: THROUGHPUT is as many streams as processors",
    "PERFORMANCE_HINT_NUM_REQUESTS": "taken: with THROUGHPUT, so many streams",
    "PERF_COUNT": "taken: `profiling_info` needs it, and runs every layer by itself",
    "ENABLE_MMAP": "taken: whether weights are mapped",
    "EXECUTION_MODE_HINT": "taken, and the same either way: f32 is computed as f32",
    "KV_CACHE_PRECISION": "taken: f32, f16, bf16 or u8; by default what the file asks for",
}


def names() -> list[str]:
    """Every attribute, as "Core.read_model"."""
    return [f"{kind}.{name}" for kind, text in NAMES.items() for name in text.split()]


def page() -> str:
    """The whole page."""
    every = names()
    same = [name for name in every if name not in IGNORED and name not in REFUSED]
    text = HEAD.format(count=len(every), same=len(same))
    for kind, own in NAMES.items():
        columns: list[list[str]] = [[], [], []]
        for name in own.split():
            full = f"{kind}.{name}"
            if full in IGNORED:
                columns[1].append(f"`{name}`: {IGNORED[full]}")
            elif full in REFUSED:
                columns[2].append(f"`{name}`: {REFUSED[full]}")
            else:
                columns[0].append(f"`{name}`")
        first = ", ".join(columns[0])
        rest = ["; ".join(column) for column in columns[1:]]
        text += f"| {kind} | {cell(first)} | {' | '.join(map(cell, rest))} |\n"
    text += FUNCTIONS
    for name in _config.TAKEN:
        text += f"| `{name}` | {cell(TAKEN[name])} |\n"
    for name, why in _config.IGNORED.items():
        text += f"| `{name}` | ignored with one warning: {cell(why)} |\n"
    return text + "| others | refused by name |\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "python -m tools.one_line_page", __doc__))
