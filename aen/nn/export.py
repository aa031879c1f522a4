"""Networks as ONNX files, which run where `aen` and JAX are not installed.

A network is a chain of layers and functions. Each becomes one or two nodes of
kinds that every runtime knows; an equivariant layer is written with the kernel
of the plain layer that computes the same function (see `to_dense`).

Legend: B examples, S the sizes of the spatial axes, K kernel sides, |G| group
elements, C channels, F features.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import inspect
import json
import math
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from aen import io as io_lib
from aen.groups.orbits import as_shape
from aen.nn import convert
from aen.nn import pooling
from aen.nn import windows
from aen.nn.conv import EquivariantConv
from aen.nn.dense import EquivariantDense
from aen.nn.group_cnn import GroupCNN
from aen.nn.layer import Params
from aen.nn.mlp import EquivariantMLP

# Operators and file format of 2020, which all runtimes of today read.
OPSET = 13
IR_VERSION = 7
# Functions, with the defaults of their options, and their operators.
ACTIVATIONS = {
  nn.elu: 'Elu',
  nn.leaky_relu: 'LeakyRelu',
  nn.relu: 'Relu',
  nn.sigmoid: 'Sigmoid',
  nn.soft_sign: 'Softsign',
  nn.softplus: 'Softplus',
  nn.tanh: 'Tanh',
}
_GROUP_POOLS = {'max': 'ReduceMax', 'mean': 'ReduceMean'}
_SPATIAL_POOLS = {'max': 'MaxPool', 'mean': 'AveragePool'}


@dataclasses.dataclass(frozen=True)
class _Value:
  """An array of the graph: [B, *stored] in the file, [B, *shape] in JAX.

  Both have the same entries in row-major order; with `channels_first`, after
  `np.moveaxis` of the first axis of `stored` to the end. So a reshape needs no
  node.
  """

  name: str
  shape: tuple[int, ...]
  stored: tuple[int, ...]
  channels_first: bool = False


@dataclasses.dataclass
class _Graph:
  """The nodes and weights of a file, before they become protocol buffers."""

  # (operator, inputs, output, attributes)
  nodes: list[tuple[str, tuple[str, ...], str, dict[str, Any]]]
  weights: dict[str, np.ndarray]

  def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
    """Adds a node; returns the name of its output."""
    output = f'{operator.lower()}_{len(self.nodes)}'
    self.nodes.append((operator, inputs, output, attributes))
    return output

  def weight(self, name: str, array: Any, dtype: Any = np.float32) -> str:
    """Adds a constant; returns its name, another one if that is taken."""
    array, number, free = np.asarray(array, dtype), 1, name
    while not np.array_equal(self.weights.setdefault(free, array), array):
      number += 1
      free = f'{name}_{number}'
    return free

  def reshape(self, x: _Value, stored: tuple[int, ...]) -> _Value:
    """Stores x, which is not `channels_first`, with another shape."""
    if x.stored == stored:
      return x
    shape = self.weight('shape', (0, *stored), np.int64)  # 0: as it is
    name = self.node('Reshape', x.name, shape)
    return dataclasses.replace(x, name=name, stored=stored)


def export(
  model: nn.Module,
  variables: Params,
  path: io_lib.PathLike,
  *,
  in_shape: Sequence[int] | None = None,
  class_names: Sequence[str] = (),
  mean: float = 0.0,
  std: float = 1.0,
) -> None:
  """Writes a network as an ONNX file.

  The file maps 'input' [B, *in_shape], with any B, to 'output', and computes in
  float32 what `model.apply(variables, (input - mean) / std)` does. Its metadata
  are JSON: class_names, mean, std and the names of the model's symmetries.

  Args:
    model: An `EquivariantMLP`, a `GroupCNN`, an equivariant layer, or an
      `nn.Sequential` of these, `nn.Dense`, `nn.Dropout` (inactive), functions
      in `ACTIVATIONS`, `group_pool` and `spatial_pool` (with their options set
      by `functools.partial`), and functions that only reshape.
    variables: Its variables, or its parameters alone.
    path: Where the file is written.
    in_shape: The shape of one example. By default that of the model; a chain
      that begins with a convolution has none.
    class_names: One per output.
    mean: Subtracted from the inputs.
    std: What the inputs are divided by, after that.

  Raises:
    ValueError: The model cannot be exported; says which part of it, and why.
  """
  try:
    import onnx  # an extra
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'aen.export needs onnx; pip install "aen[onnx]"', name='onnx'
    ) from error

  path = io_lib.as_path(path, 'path')
  largest = float(np.finfo(np.float32).max)
  mean = io_lib.real(mean, 'mean', -largest, largest)
  std = io_lib.real(std, 'std', -largest, largest)
  if not isinstance(class_names, list | tuple | str) or not all(
    isinstance(name, str) and io_lib.text(name, 'a name of class_names')
    for name in class_names
  ):
    raise ValueError(
      f'class_names must be a list of names, got {class_names!r}'
    )
  if not std > 0:
    raise ValueError(
      f'mean and std must be finite, and std positive, got {mean:g} and {std:g}'
    )
  params = _params(variables)
  shape = _in_shape(model, params) if in_shape is None else as_shape(in_shape)
  graph, x = _Graph([], {}), _Value('input', shape, shape)
  if (mean, std) != (0, 1):
    name = graph.node('Sub', x.name, graph.weight('mean', mean))
    name = graph.node('Div', name, graph.weight('std', std))
    x = dataclasses.replace(x, name=name)
  x = _append(graph, x, model, params, '')
  graph.node('Identity', _in_rows(graph, x, x.shape).name)
  if class_names and x.shape != (len(class_names),):
    raise ValueError(
      f'class_names must be one per output, got {len(class_names)} for outputs'
      f' of shape {x.shape}'
    )

  nodes = [
    onnx.helper.make_node(operator, inputs, [output], output, **attributes)
    for operator, inputs, output, attributes in graph.nodes
  ]
  nodes[-1].output[0] = 'output'
  kind = onnx.TensorProto.FLOAT
  proto = onnx.helper.make_model(
    onnx.helper.make_graph(
      nodes,
      type(model).__name__,
      [onnx.helper.make_tensor_value_info('input', kind, ['batch', *shape])],
      [onnx.helper.make_tensor_value_info('output', kind, ['batch', *x.shape])],
      [
        onnx.numpy_helper.from_array(array, name)
        for name, array in graph.weights.items()
      ],
    ),
    producer_name='aen',
    ir_version=IR_VERSION,
    opset_imports=[onnx.helper.make_opsetid('', OPSET)],
  )
  metadata = {
    'class_names': list(class_names),
    'mean': mean,
    'std': std,
    'symmetries': [s.name for s in getattr(model, 'symmetries', ())],
  }
  onnx.helper.set_model_props(
    proto, {k: json.dumps(v, ensure_ascii=False) for k, v in metadata.items()}
  )
  onnx.checker.check_model(proto, full_check=True)
  try:
    with io_lib.written_whole(path) as file:
      file.write(proto.SerializeToString())
  except OSError as error:
    raise OSError(
      error.errno, f'cannot write {str(path)[:200]}: {error.strerror}'
    ) from error


def _params(variables: Params) -> Params:
  """Returns the parameters; raises if the outputs depend on more than them."""
  if not isinstance(variables, Mapping) or not isinstance(
    variables.get('params', {}), Mapping
  ):
    raise ValueError(
      'export needs the variables of the model, {"params": …}, got'
      f' {variables!r:.80}'
    )
  if 'params' not in variables:
    return variables
  if others := sorted(set(variables) - {'params', 'intermediates'}):
    raise ValueError(
      f'export needs the parameters alone, got the collections {others} too;'
      " of a padded network with 'sharing', export the network itself"
    )
  return variables['params']


def _in_shape(model: Any, params: Params) -> tuple[int, ...]:
  """Returns the shape of one example, as the model determines it."""
  if isinstance(model, EquivariantMLP):
    name, first = next(iter(model.sublayers().items()))
    shape: Any = _in_shape(first, params.get(name, {}))
    return shape[:-1] if shape == (*model.in_shape, 1) else shape
  if isinstance(model, EquivariantDense):
    return (*model.in_shape, *np.shape(params.get('kernel', ()))[1:2])
  if isinstance(model, nn.Sequential) and model.layers:
    name, first = _sequential(model, ())[0]
    return _in_shape(first, params.get(name, {}))
  if isinstance(model, GroupCNN) and model.in_shape is not None:
    return tuple(model.in_shape)
  if type(model) not in {*_NETWORKS, *_LAYERS}:
    raise _unknown(model)
  raise ValueError(
    f'the shape of the inputs does not follow from this {type(model).__name__};'
    ' give the shape of one example: export(…, in_shape=(28, 28, 1))'
  )


def _append(
  graph: _Graph, x: _Value, step: Any, params: Params, name: str
) -> _Value:
  """Appends a network, a layer or a function; `name` prefixes its weights."""
  if not isinstance(step, nn.Module):
    return _function(graph, x, step)
  dtype = getattr(step, 'dtype', None)
  if dtype is not None and jnp.dtype(dtype) != jnp.float32:
    raise ValueError(
      f'export computes in float32, got {type(step).__name__} with dtype'
      f' {jnp.dtype(dtype)}; export it with dtype=None'
    )
  # Not by isinstance: a subclass may compute something else.
  if add := _LAYERS.get(type(step)):
    return add(graph, x, step, params, name)
  if parts := _NETWORKS.get(type(step)):
    for key, part in parts(step, x.shape):
      x = _append(graph, x, part, params.get(key, {}), f'{name}{key}.')
    return x
  raise _unknown(step)


def _unknown(model: nn.Module) -> ValueError:
  known = ', '.join(kind.__name__ for kind in (*_NETWORKS, *_LAYERS))
  return ValueError(
    f'export knows {known}, got {type(model).__name__}; write the model as an'
    ' nn.Sequential of these, or convert its parameters with to_dense'
  )


# The layers and functions of a network, in order; layers with their names.
_Parts = list[tuple[str, Any]]


def _sequential(model: nn.Sequential, shape: tuple[int, ...]) -> _Parts:
  del shape
  names: dict[int, str] = {}
  for i, layer in enumerate(model.layers):  # the same one may occur twice
    name = getattr(layer, 'name', None) or f'layers_{i}'  # as Flax does
    names.setdefault(id(layer), name)
  return [(names[id(layer)], layer) for layer in model.layers]


def _mlp(model: EquivariantMLP, shape: tuple[int, ...]) -> _Parts:
  *hidden, head = model.sublayers().items()
  parts: _Parts = []
  if hidden[0][1].features is not None and shape == model.in_shape:
    parts.append(('', _to_shape(*shape, 1)))
  for layer in hidden:
    parts += [layer, ('', model.activation)]
  flatten = ('', _to_shape(-1))
  if model.head == 'dense':
    parts.append(flatten)
  return [*parts, head, flatten]


def _group_cnn(model: GroupCNN, shape: tuple[int, ...]) -> _Parts:
  image_shape: Any = (*shape, 1) if len(shape) == 2 else shape
  if len(image_shape) != 3 or model.in_shape not in (None, image_shape):
    expected = model.in_shape or '(H, W, C)'
    raise ValueError(f'GroupCNN needs images {expected}, got shape {shape}')
  *convs, dense, last, head = model.sublayers(image_shape).items()
  pool = functools.partial(pooling.spatial_pool, group=model.group())
  relu, flatten = ('', nn.relu), ('', _to_shape(-1))
  parts: _Parts = [('', _to_shape(*image_shape))]
  for i, conv in enumerate(convs):
    parts += [conv, relu, ('', pool)] if i % 2 else [conv, relu]
  if model.head == 'dense':
    parts += [flatten, dense, relu]
  else:
    parts += [dense, relu, ('', pooling.group_pool), flatten]
  return [*parts, last, head]


_NETWORKS: dict[type, Callable[[Any, tuple[int, ...]], _Parts]] = {
  EquivariantMLP: _mlp,
  GroupCNN: _group_cnn,
  nn.Sequential: _sequential,
}


def _to_shape(*shape: int) -> Callable[[jax.Array], jax.Array]:
  return lambda x: x.reshape(len(x), *shape)


def _equivariant_dense(
  graph: _Graph, x: _Value, layer: EquivariantDense, params: Params, name: str
) -> _Value:
  plain = convert.to_dense(layer, params)
  shape, out_shape = tuple(layer.in_shape), tuple(layer.out_shape)
  if layer.features is not None:
    channels = len(plain['kernel']) // math.prod(shape)
    shape, out_shape = (*shape, channels), (*out_shape, layer.features)
  _check_shape(layer, x, shape)
  return dataclasses.replace(_gemm(graph, x, plain, name), shape=out_shape)


def _dense(
  graph: _Graph, x: _Value, layer: nn.Dense, params: Params, name: str
) -> _Value:
  """Appends a plain dense layer, which acts on the last axis."""
  names = {'kernel', 'bias'} if layer.use_bias else {'kernel'}
  if set(params) != names:
    raise ValueError(
      f'nn.Dense has parameters {sorted(names)}, got {sorted(params)}'
    )
  if layer.dot_general is not None or layer.dot_general_cls is not None:
    raise ValueError('export knows no nn.Dense with a dot_general of its own')
  num_in, num_out = np.shape(params['kernel'])
  _check_shape(layer, x, (*x.shape[:-1], num_in))
  if len(x.shape) == 1:
    return _gemm(graph, x, params, name)
  product = graph.node(
    'MatMul',
    _in_rows(graph, x, x.shape).name,
    graph.weight(f'{name}kernel', params['kernel']),
  )
  if layer.use_bias:
    bias = graph.weight(f'{name}bias', params['bias'])
    product = graph.node('Add', product, bias)
  shape = (*x.shape[:-1], num_out)
  return _Value(product, shape, shape)


def _check_shape(layer: Any, x: _Value, shape: tuple[int, ...]) -> None:
  if x.shape != shape:
    raise ValueError(
      f'{type(layer).__name__} needs inputs of shape {shape}, got {x.shape};'
      ' give export the in_shape that the parameters were made for'
    )


def _gemm(graph: _Graph, x: _Value, plain: Params, name: str) -> _Value:
  """Appends a matrix product, all of x to [B, M]."""
  kernel = np.asarray(plain['kernel'])
  if x.channels_first:  # permute the kernel once, rather than every input
    order = np.arange(len(kernel)).reshape(*x.stored[1:], x.stored[0])
    kernel = kernel[np.moveaxis(order, -1, 0).ravel()]
    x = dataclasses.replace(x, channels_first=False)
  inputs = [graph.reshape(x, (len(kernel),)).name]
  inputs.append(graph.weight(f'{name}kernel', kernel))
  if 'bias' in plain:
    inputs.append(graph.weight(f'{name}bias', plain['bias']))
  shape = kernel.shape[1:]
  return _Value(graph.node('Gemm', *inputs), shape, shape)


def _conv(
  graph: _Graph, x: _Value, layer: EquivariantConv, params: Params, name: str
) -> _Value:
  """Appends a plain convolution: the group is a part of the channels."""
  plain = convert.to_dense(layer, params)
  kernel = np.asarray(plain['kernel'])  # [*K, |G| * C, |G| * F]
  ndim, order = len(layer.kernel_size), layer.group().order
  last = kernel.shape[-2:-1]
  if not layer.lifting:
    last = order, kernel.shape[-2] // order
  _check_shape(layer, x, (*x.shape[:ndim], *last))
  frame = windows.frame(
    x.shape[:ndim],
    layer.kernel_size,
    layer.strides,
    layer.padding,
    layer.kernel_dilation,
  )
  windows.check(frame, layer.group())
  inputs = [
    _in_planes(graph, x, ndim).name,
    graph.weight(f'{name}kernel', np.moveaxis(kernel, (-1, -2), (0, 1))),
  ]
  if 'bias' in plain:
    inputs.append(graph.weight(f'{name}bias', plain['bias']))
  output = graph.node(
    'Conv', *inputs, **_attributes(frame), dilations=frame.dilation
  )
  return _Value(
    output,
    (*frame.places, order, layer.features),
    (order * layer.features, *frame.places),
    channels_first=True,
  )


def _attributes(frame: windows.Frame) -> dict[str, Any]:
  before, after = zip(*frame.padding, strict=True)
  return {
    'kernel_shape': frame.sides,
    'strides': frame.strides,
    'pads': (*before, *after),
  }


_LAYERS: dict[type, Callable[..., _Value]] = {
  EquivariantDense: _equivariant_dense,
  EquivariantConv: _conv,
  nn.Dense: _dense,
  nn.Dropout: lambda graph, x, *_: x,
}


def _function(graph: _Graph, x: _Value, function: Any) -> _Value:
  """Appends an activation, a pooling or a reshape."""
  if function in ACTIVATIONS:
    name = graph.node(ACTIVATIONS[function], x.name)
    return dataclasses.replace(x, name=name)
  bare, options = function, {}
  if isinstance(function, functools.partial) and not function.args:
    bare, options = function.func, function.keywords
  if bare in _POOLS:
    given = inspect.signature(bare).bind(None, **options)
    given.apply_defaults()
    return _POOLS[bare](graph, x, *given.args[1:])
  # A function that only reshapes returns these numbers in the same order.
  size = (2, *x.shape)
  probe = np.random.default_rng(0).normal(0, 1e3, size).astype(np.float32)
  try:
    result = np.asarray(function(jnp.asarray(probe)))
  except Exception as error:
    raise ValueError(f'{_NO_FUNCTION} {function!r}') from error
  if result.shape[:1] != (2,) or not np.array_equal(
    result.ravel(), probe.ravel()
  ):
    raise ValueError(f'{_NO_FUNCTION} {function!r}')
  return dataclasses.replace(x, shape=result.shape[1:])  # no node


_NO_FUNCTION = (
  'export knows group_pool, spatial_pool, functions that only reshape and'
  f' {", ".join(f.__name__ for f in ACTIVATIONS)}, got'
)


def _group_pool(graph: _Graph, x: _Value, how: str) -> _Value:
  *space, order, channels = x.shape
  if x.channels_first and x.stored == (order * channels, *space):
    x = dataclasses.replace(x, channels_first=False)
    stored, axis = (order, channels, *space), 1
  else:
    x, stored, axis = _in_rows(graph, x, x.shape), x.shape, len(x.shape) - 1
  split = graph.reshape(x, stored)
  pooled = graph.node(_GROUP_POOLS[how], split.name, axes=[axis], keepdims=0)
  shape = (*space, channels)
  if axis == 1:
    return _Value(pooled, shape, (channels, *space), channels_first=True)
  return _Value(pooled, shape, shape)


def _spatial_pool(
  graph: _Graph, x: _Value, group: Any, window: Any, strides: Any, how: str
) -> _Value:
  ndim = group.ndim
  sides = windows.per_axis(window, ndim, 'window')
  frame = windows.frame(
    x.shape[:ndim], sides, sides if strides is None else strides, 'VALID'
  )
  windows.check(frame, group)
  x = _in_planes(graph, x, ndim)
  pooled = graph.node(_SPATIAL_POOLS[how], x.name, **_attributes(frame))
  return _Value(
    pooled,
    (*frame.places, *x.shape[ndim:]),
    (x.stored[0], *frame.places),
    channels_first=True,
  )


_POOLS: dict[Any, Callable[..., _Value]] = {
  pooling.group_pool: _group_pool,
  pooling.spatial_pool: _spatial_pool,
}


def _in_rows(graph: _Graph, x: _Value, stored: tuple[int, ...]) -> _Value:
  """Stores x in JAX's order, with the given shape."""
  if not x.channels_first:
    return graph.reshape(x, stored)
  channels, *space = x.stored
  if 1 not in (channels, math.prod(space)):  # else it is only a reshape
    axes = [0, *range(2, len(space) + 2), 1]
    name = graph.node('Transpose', x.name, perm=axes)
    x = dataclasses.replace(x, name=name, stored=(*space, channels))
  return graph.reshape(dataclasses.replace(x, channels_first=False), stored)


def _in_planes(graph: _Graph, x: _Value, ndim: int) -> _Value:
  """Stores x [*S, ...] as [channels, *S], all axes after S merged."""
  space, channels = x.shape[:ndim], math.prod(x.shape[ndim:])
  planes = (channels, *space)
  if x.channels_first and x.stored == planes:
    return x
  if 1 in (channels, math.prod(space)):  # it is only a reshape
    x = _in_rows(graph, x, planes)
    return dataclasses.replace(x, channels_first=True)
  x = _in_rows(graph, x, (*space, channels))
  name = graph.node(
    'Transpose', x.name, perm=[0, ndim + 1, *range(1, ndim + 1)]
  )
  return dataclasses.replace(x, name=name, stored=planes, channels_first=True)
