"""Runs an ONNX model node by node, each with the function for its operator in a table."""

import onnx

from arrays import Coded, Unsupported, lacking, tensor_of_proto


class Node:
    """A node: its attributes, and what its function may need from the model."""

    def __init__(self, proto, opset, interpreter, scope):
        self.operator = proto.op_type
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.opset = opset
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}
        self._interpreter = interpreter
        self._scope = scope

    def attribute(self, name, default=None):
        """Returns an attribute: a number, a string, a list of these, or a tensor; `default` if the
        node lacks it."""
        if name not in self._attributes:
            return default
        attribute = self._attributes[name]
        if attribute.type == onnx.AttributeProto.TENSOR:
            return tensor_of_proto(attribute.t)
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, (list, tuple)):
            return [item.decode() if isinstance(item, bytes) else item for item in value]
        return value

    def wants(self, index):
        """Returns whether the model uses output `index`."""
        return index < len(self.outputs) and self.outputs[index] != ""

    def only(self, *names):
        """Raises Unsupported if the node has other attributes than these."""
        others = sorted(set(self._attributes) - set(names))
        if others:
            raise self.unsupported(f"attribute {', '.join(others)}")

    def unsupported(self, reason):
        """Returns the error for something that this node requires and that is not implemented."""
        return Unsupported("not covered", f"{self.operator}: {reason}")

    def run_graph(self, name, *values):
        """Returns the outputs of the graph in an attribute. The graph can access the values in the
        node's scope."""
        graph = onnx.helper.get_attribute_value(self._attributes[name])
        return self._interpreter.run_graph(graph, values, self._scope)


class Interpreter:
    """A model, and the table of functions that runs it."""

    def __init__(self, model, table):
        self._model = model
        self._table = table
        self._opsets = {entry.domain: entry.version for entry in model.opset_import}

    def run(self, values):
        """Returns the outputs for these inputs, in the order of the graph."""
        return self.run_graph(self._model.graph, values, {})

    def run_graph(self, graph, values, outer):
        """Returns the outputs of a graph whose nodes can also access the values in `around`."""
        scope = dict(outer)
        scope.update({tensor.name: tensor_of_proto(tensor) for tensor in graph.initializer})
        names = [value.name for value in graph.input]
        if len(values) > len(names):
            raise ValueError(f"{len(values)} inputs for a graph that has {len(names)}")
        scope.update(zip(names, values))
        for proto in graph.node:
            self._run_node(proto, scope)
        return [scope[value.name] for value in graph.output]

    def _run_node(self, proto, scope):
        name = operator_name(proto)
        if name not in self._table:
            raise Unsupported("operator not covered", f"operator {name}")
        node = Node(proto, self._opsets.get(proto.domain, 1), self, scope)
        # An input without a name was omitted.
        values = [scope[source] if source else None for source in proto.input]
        function = self._table[name]
        if not getattr(function, "takes_coded", False):
            _reject_coded(values)
        outputs = function(node, *values)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(outputs) < len(proto.output):
            raise node.unsupported(f"output {len(outputs) + 1}")
        scope.update({target: output for target, output in zip(proto.output, outputs) if target})


def _reject_coded(values):
    """Raises Unsupported if a value, or an item of a list, has a format that few operators
    support."""
    for value in values:
        if isinstance(value, list):
            _reject_coded(value)
        elif isinstance(value, Coded):
            raise lacking(value.format)


def operator_name(proto):
    """Returns the name of an operator, with its domain if that is not ONNX's default domain."""
    return f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
