"""Names that users of OpenVINO, ONNX Runtime and PyTorch look for in `uncork`, and what `uncork`
has in their place.
"""

from __future__ import annotations

#: The way here for names that `uncork` does not have.
ELSEWHERE = {
    "Core": "uncork.openvino.Core, for programs written for OpenVINO; its methods are functions "
    "here: uncork.read_model(path), uncork.compile_model(model)",
    "Type": "uncork.ElementType, as in ElementType.f32; an element type equals its name, so "
    "'f32' serves too",
    "Shape": "uncork.PartialShape([1, None, (2, 8)]), or a list",
    "Layout": "there are no layouts: arrays are taken as the model's inputs have them",
    "Tensor": "NumPy arrays are given and returned as they are",
    "tensor": "NumPy arrays are given and returned as they are",
    "runtime": "uncork.load('model.xml'), and what it gives: see help(uncork.load)",
    "ConstOutput": "uncork.ModelPort",
    "Output": "uncork.ModelPort",
    "OVDict": "uncork.Results",
    "InferenceSession": "uncork.load('model.onnx'), which is called: compiled({'ids': ids})",
    "SessionOptions": "options are arguments of uncork.load, as in threads=2",
    "convert_model": "uncork.read_model('model.onnx') and uncork.from_torch(module, example); of "
    "TensorFlow: `pip install openvino`, then `ovc folder`, gives a model.xml",
    "save_model": "uncork.write_model(model, 'model.xml')",
    "serialize": "uncork.write_model(model, 'model.xml')",
    "infer": "uncork.load('model.xml') gives a function: compiled(inputs)",
    "run": "uncork.load('model.xml') gives a function: compiled(inputs)",
    "opset": "its functions are in uncork.openvino, as in `from uncork.openvino import opset13`; "
    "uncork.Builder builds models: builder.add('Gather', 8, data, indices, axis)",
    "properties": "uncork.openvino.properties, for programs written for OpenVINO; options are "
    "arguments of uncork.load, as in threads=2",
    "preprocess": "uncork.openvino.preprocess, for programs written for OpenVINO",
    "nn": "uncork.functional has the operations on plain arrays",
    "jit": "uncork.load('model.xml') compiles a model; of a module of torch there is "
    "uncork.from_torch(module, example)",
    "onnx": "uncork.load('model.onnx') reads an ONNX file; uncork.to_onnx(model) and "
    "uncork.write_onnx(model, path) write one",
    "version": "uncork.__version__",
    "get_version": "uncork.__version__",
}


def elsewhere(name: str) -> str:
    """What there is in place of a name; "" where nothing is."""
    return ELSEWHERE.get(name) or ELSEWHERE.get(name.rstrip("0123456789"), "")  # opset13


def no_such_name(name: str, public: list[str]) -> str:
    """The message for a name that `uncork` does not have."""
    message = f"module 'uncork' has no attribute '{name}'"
    if way := elsewhere(name):
        return f"{message}: {way}"
    from uncork.ir.ports import did_you_mean

    return message + ("" if name.startswith("_") else did_you_mean(name, public))
