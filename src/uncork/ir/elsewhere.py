"""Names that users of OpenVINO, ONNX Runtime and PyTorch look for on models, ports and requests,
and what `uncork` has in their place.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Of ports.
PORT = {
    "get_any_name": "port.name",
    "get_names": "port.names",
    "get_element_type": "port.element_type",
    "get_partial_shape": "port.shape",
    "get_shape": "port.shape",
    "get_index": "port.position",
    "type": "port.element_type",
    "node": "the layers are model.nodes",
    "get_node": "the layers are model.nodes",
    "set_names": "uncork.surgery.rename(model, ...) gives a model with other names",
    "tensor": "port.names, port.element_type and port.shape",
    "get_tensor": "port.names, port.element_type and port.shape",
}
#: Of models, before they are compiled.
MODEL = {
    "get_ops": "model.nodes, in the order in which they run",
    "get_ordered_ops": "model.nodes",
    "get_parameters": "model.inputs",
    "get_results": "model.outputs",
    "get_friendly_name": "model.name",
    "friendly_name": "model.name",
    "get_rt_info": "model.extras, what a file says beside its layers",
    "add_outputs": "uncork.surgery.extract(model, inputs, outputs) gives other outputs",
    "clone": "models do not change: what changes one gives another",
    "graph": "model.nodes are the layers",
    "eval": "it computes as in use: there is nothing to switch",
}
#: Of what is compiled.
COMPILED = {
    "infer": "call it: compiled(inputs)",
    "run": "call it: compiled({'ids': ids})",
    "predict": "call it: compiled(inputs)",
    "forward": "call it: compiled(inputs)",
    "get_inputs": "compiled.inputs",
    "get_outputs": "compiled.outputs",
    "get_property": "options are arguments of uncork.load, as in threads=2",
    "set_property": "options are arguments of uncork.load, as in threads=2",
    "get_runtime_model": "print(compiled.plan) shows what runs",
    "export_model": "uncork.write_model(compiled.model, 'model.xml'); kernels are kept on disk",
    "eval": "it computes as in use: there is nothing to switch",
    "to": "uncork runs models on the CPU",
    "cuda": "uncork runs models on the CPU",
    "state_dict": "the constants are layers of compiled.model: model.nodes",
}

#: Of requests.
REQUEST = {
    "get_output_tensor": "request.results[0] is the array",
    "get_tensor": "request.results['name'] is the array of an output; inputs are given to infer()",
    "output_tensors": "request.results has the arrays",
    "set_input_tensor": "give the inputs to infer() or start_async()",
    "set_input_tensors": "give the inputs to infer() or start_async()",
    "set_output_tensor": "compiled.bind(..., outputs=...) writes into arrays of yours",
    "set_tensor": "give the inputs to infer() or start_async()",
    "set_tensors": "give the inputs to infer() or start_async()",
    "get_profiling_info": "compiled.profile(inputs) tells the time of every step",
    "profiling_info": "compiled.profile(inputs) tells the time of every step",
}


def missing(thing: object, called: str, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that an object lacks. Where the class has it and it failed, its
    own error is raised instead.
    """
    if hasattr(type(thing), name):
        object.__getattribute__(thing, name)
    way = f": {elsewhere[name]}" if name in elsewhere else ""
    # The object is given, or Python would add a suggestion of its own.
    return AttributeError(f"{called} has no '{name}'{way}", name=name, obj=None)
