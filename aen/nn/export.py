"""Export to ONNX, which runs where `aen` and JAX are not installed.

A network is a chain of layers and functions, each of which becomes one or two
nodes of standard operators. An equivariant layer becomes the plain layer that
computes the same function (see `to_dense`).

Legend: B examples, S the sizes of the spatial axes, K kernel sides, |G| group
elements, C channels, F features.
"""

from collections.abc import Callable, Iterator, Sequence
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
from aen.groups.symmetries import as_shape
from aen.nn import convert
from aen.nn import pooling
from aen.nn import windows
from aen.nn.conv import EquivariantConv
from aen.nn.dense import EquivariantDense
from aen.nn.group_cnn import GroupCNN
from aen.nn.layer import Params
from aen.nn.mlp import EquivariantMLP

# The operators and file format of 2020, which all current runtimes read.
OPSET = 13
IR_VERSION = 7
# Operators of functions with default options.
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


@dataclasses.dataclass
class _Chain:
  """The nodes and weights of a file, before they become protocol buffers.

  The last node returns JAX's array [B, *shape] in the shape [B, *stored], with
  the same entries in row-major order; if `channels_first`, once the first axis
  of `stored` is put last. So a reshape needs no node.
  """

  shape: tuple[int, ...]
  stored: tuple[int, ...]
  channels_first: bool = False
  last: str = 'input'  # the name of the array
  # (operator, inputs, output, attributes)
  nodes: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
  weights: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

  def node(self, operator: str, *weights: str, **attributes: Any) -> None:
    """Appends an operator on the array and on weights."""
    output = f'{operator.lower()}_{len(self.nodes)}'
    self.nodes.append((operator, (self.last, *weights), output, attributes))
    self.last = output

  def weight(self, name: str, array: Any, dtype: Any = np.float32) -> str:
    """Adds a constant; returns its name, with a suffix if it is taken."""
    array, number, free = np.asarray(array, dtype), 1, name
    while not np.array_equal(self.weights.setdefault(free, array), array):
      number += 1
      free = f'{name}_{number}'
    return free

  def append(self, step: Any, params: Params, name: str) -> None:
    """Appends a network, a layer or a function; `name` prefixes its weights."""
    if not isinstance(step, nn.Module):
      return self.function(step)
    dtype = getattr(step, 'dtype', None)
    if dtype is not None and jnp.dtype(dtype) != jnp.float32:
      raise ValueError(
        f'export computes in float32, got {type(step).__name__} with dtype'
        f' {jnp.dtype(dtype)}; export it with dtype=None'
      )
    # Not isinstance: a subclass may compute something else.
    kind = type(step)
    if parts := _NETWORKS.get(kind):
      for key, part in parts(step, self.shape):
        self.append(part, params.get(key, {}), f'{name}{key}.')
    elif kind not in _LAYERS:
      raise _unknown(step)
    elif kind is not nn.Dropout:
      plain = convert.to_dense(step, params)
      plain = {key: np.asarray(array) for key, array in plain.items()}
      add = self.conv if kind is EquivariantConv else self.dense
      add(step, plain, name)

  def dense(self, layer: Any, plain: dict[str, Any], name: str) -> None:
    """Appends a matrix product with the flat array, or along its last axis."""
    num_in, num_out = plain['kernel'].shape
    if isinstance(layer, nn.Dense):
      if layer.dot_general is not None or layer.dot_general_cls is not None:
        raise ValueError(
          'export does not support nn.Dense with a custom dot_general'
        )
      shape, out_shape = (*self.shape[:-1], num_in), (*self.shape[:-1], num_out)
    elif layer.features is None:
      shape, out_shape = layer.in_shape, layer.out_shape
    else:
      shape = *layer.in_shape, num_in // math.prod(layer.in_shape)
      out_shape = *layer.out_shape, layer.features
    self.check_shape(layer, shape)
    if math.prod(shape) > num_in:
      self.in_rows(shape)
      weight, *bias = self.parameters(name, plain)
      self.node('MatMul', weight)
      if bias:
        self.node('Add', *bias)
      self.shape = self.stored = out_shape
      return
    if self.channels_first:  # permute the kernel instead of the inputs
      order = np.arange(num_in).reshape(*self.stored[1:], self.stored[0])
      plain['kernel'] = plain['kernel'][np.moveaxis(order, -1, 0).ravel()]
      self.channels_first = False
    self.in_rows((num_in,))
    self.node('Gemm', *self.parameters(name, plain))
    self.shape, self.stored = out_shape, (num_out,)

  def conv(self, layer: Any, plain: dict[str, Any], name: str) -> None:
    """Appends a plain convolution, with the group as part of the channels."""
    ndim, group = len(layer.kernel_size), layer.group()
    *_, num_in, num_out = plain['kernel'].shape  # [*K, |G| * C, |G| * F]
    axes = () if layer.lifting else (group.order,)
    space = self.shape[:ndim]
    self.check_shape(layer, (*space, *axes, num_in // math.prod(axes)))
    if layer.padding == 'CIRCULAR':
      raise ValueError(
        "export does not support EquivariantConv with padding='CIRCULAR'; use"
        " 'SAME', 'VALID' or numbers"
      )
    geometry = layer.strides, layer.padding, layer.kernel_dilation
    frame = windows.frame(space, layer.kernel_size, *geometry, group)
    self.in_planes(ndim)
    plain['kernel'] = np.moveaxis(plain['kernel'], (-1, -2), (0, 1))
    weights = self.parameters(name, plain)
    self.node('Conv', *weights, **_attributes(frame), dilations=frame.dilation)
    self.shape = *frame.places, group.order, layer.features
    self.stored = num_out, *frame.places

  def check_shape(self, layer: Any, shape: tuple[int, ...]) -> None:
    """Raises unless a layer can be applied to the array."""
    if self.shape != shape:
      raise ValueError(
        f'{type(layer).__name__} needs inputs of shape {shape}, got'
        f' {self.shape}; give export the in_shape that the parameters were made'
        ' for'
      )

  def parameters(self, name: str, plain: Params) -> list[str]:
    """Adds a layer's kernel and bias, if any; returns their names."""
    keys = [key for key in ('kernel', 'bias') if key in plain]
    return [self.weight(f'{name}{key}', plain[key]) for key in keys]

  def function(self, function: Any) -> None:
    """Appends an activation, a pooling or a reshape."""
    if function in ACTIVATIONS:
      return self.node(ACTIVATIONS[function])
    bare, options = function, {}
    if isinstance(function, functools.partial) and not function.args:
      bare, options = function.func, function.keywords
    if pool := _POOLS.get(bare):
      given = inspect.signature(bare).bind(None, **options)
      given.apply_defaults()
      return pool(self, *given.args[1:])
    # A function that only reshapes keeps these numbers in order.
    size = (2, *self.shape)
    probe = np.random.default_rng(0).normal(0, 1e3, size).astype(np.float32)
    known = ', '.join(f.__name__ for f in ACTIVATIONS)
    unknown = ValueError(
      'export supports group_pool, spatial_pool, functions that only reshape'
      f' and {known}, got {function!r}'
    )
    try:
      result = np.asarray(function(jnp.asarray(probe)))
    except Exception as error:
      raise unknown from error
    same = np.array_equal(result.ravel(), probe.ravel())
    if result.shape[:1] != (2,) or not same:
      raise unknown
    self.shape = result.shape[1:]  # no node

  def group_pool(self, how: str) -> None:
    """Appends a reduction of the group's axis."""
    *space, order, channels = self.shape
    self.in_planes(len(space))
    self.channels_first = False
    self.in_rows((order, channels, *space))
    self.node(_GROUP_POOLS[how], axes=[1], keepdims=0)
    self.shape, self.stored = (*space, channels), (channels, *space)
    self.channels_first = True

  def spatial_pool(
    self, group: Any, window: Any, strides: Any, how: str
  ) -> None:
    """Appends a pooling over windows."""
    ndim, steps = group.ndim, window if strides is None else strides
    if len(self.shape) <= ndim:
      raise ValueError(
        f'spatial_pool needs {ndim} axes of positions and an axis of channels,'
        f' got {self.shape} for each example'
      )
    space = self.shape[:ndim]
    frame = windows.frame(space, window, steps, 'VALID', group=group)
    self.in_planes(ndim)
    self.node(_SPATIAL_POOLS[how], **_attributes(frame))
    self.shape = *frame.places, *self.shape[ndim:]
    self.stored = self.stored[0], *frame.places

  def in_rows(self, stored: tuple[int, ...]) -> None:
    """Stores the array in JAX's order, with the given shape."""
    if self.channels_first:
      channels, *space = self.stored
      if 1 not in (channels, math.prod(space)):  # otherwise, only a reshape
        self.node('Transpose', perm=[0, *range(2, len(space) + 2), 1])
        self.stored = *space, channels
      self.channels_first = False
    if self.stored != stored:
      shape = self.weight('shape', (0, *stored), np.int64)  # 0: as it is
      self.node('Reshape', shape)
      self.stored = stored

  def in_planes(self, ndim: int) -> None:
    """Stores the array [*S, ...] as [channels, *S], all axes after S merged."""
    space, channels = self.shape[:ndim], math.prod(self.shape[ndim:])
    planes = (channels, *space)
    if self.channels_first and self.stored == planes:
      return
    if 1 in (channels, math.prod(space)):  # only a reshape
      self.in_rows(planes)
    else:
      self.in_rows((*space, channels))
      self.node('Transpose', perm=[0, ndim + 1, *range(1, ndim + 1)])
    self.stored, self.channels_first = planes, True


_POOLS: dict[Any, Callable[..., None]] = {
  pooling.group_pool: _Chain.group_pool,
  pooling.spatial_pool: _Chain.spatial_pool,
}


def _attributes(frame: windows.Frame) -> dict[str, Any]:
  before, after = zip(*frame.padding, strict=True)
  return {
    'kernel_shape': frame.sides,
    'strides': frame.strides,
    'pads': (*before, *after),
  }


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

  The file maps 'input' [B, *in_shape], for any B, to 'output', and computes
  `model.apply(variables, (input - mean) / std)` in float32. Its metadata, as
  JSON, are class_names, mean, std and the names of the model's symmetries.

  Args:
    model: An `EquivariantMLP`, a `GroupCNN`, an equivariant layer, or an
      `nn.Sequential` of these, `nn.Dense`, `nn.Dropout` (inactive), functions
      in `ACTIVATIONS`, `group_pool` and `spatial_pool` (with their options set
      by `functools.partial`), and functions that only reshape.
    variables: Its variables, or its parameters alone.
    path: The file to write.
    in_shape: The shape of one example (default: the model's; required if it has
      none, as when it begins with an `EquivariantConv` or `nn.Dense`).
    class_names: One per output.
    mean: Subtracted from the inputs.
    std: Divides the inputs, after that.

  Raises:
    ValueError: The model cannot be exported; says which part, and why.
  """
  with io_lib.needed_for('aen.export', 'onnx'):
    import onnx

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
  params = convert.params_of(variables)
  others = sorted(set(variables) - {'params', 'intermediates'})
  if 'params' in variables and others:
    raise ValueError(
      f'export takes parameters only, got the collections {others} too; instead'
      " of a padded network with 'sharing', export the network itself"
    )
  shape = _in_shape(model, params) if in_shape is None else as_shape(in_shape)
  chain = _Chain(shape, shape)
  if (mean, std) != (0, 1):
    chain.node('Sub', chain.weight('mean', mean))
    chain.node('Div', chain.weight('std', std))
  chain.append(model, params, '')
  chain.in_rows(chain.shape)
  chain.node('Identity')
  if class_names and chain.shape != (len(class_names),):
    raise ValueError(
      f'class_names must be one per output, got {len(class_names)} for outputs'
      f' of shape {chain.shape}'
    )

  helper = onnx.helper
  nodes = [
    helper.make_node(operator, inputs, [output], output, **attributes)
    for operator, inputs, output, attributes in chain.nodes
  ]
  nodes[-1].output[0] = 'output'
  ends = [
    helper.make_tensor_value_info(
      name, onnx.TensorProto.FLOAT, ['batch', *axes]
    )
    for name, axes in (('input', shape), ('output', chain.shape))
  ]
  weights = [
    onnx.numpy_helper.from_array(array, name)
    for name, array in chain.weights.items()
  ]
  title = type(model).__name__
  proto = helper.make_model(
    helper.make_graph(nodes, title, ends[:1], ends[1:], weights),
    producer_name='aen',
    ir_version=IR_VERSION,
    opset_imports=[helper.make_opsetid('', OPSET)],
  )
  metadata = {
    'class_names': list(class_names),
    'mean': mean,
    'std': std,
    'symmetries': [s.name for s in getattr(model, 'symmetries', ())],
  }
  helper.set_model_props(
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


def _in_shape(model: Any, params: Params) -> tuple[int, ...]:
  """Returns the shape of one example, as the model determines it."""
  if isinstance(model, EquivariantMLP):
    name, first = next(iter(model.sublayers().items()))
    shape: Any = _in_shape(first, params.get(name, {}))
    return shape[:-1] if shape == (*model.in_shape, 1) else shape
  if isinstance(model, EquivariantDense):
    return (*model.in_shape, *np.shape(params.get('kernel', ()))[1:2])
  if isinstance(model, nn.Sequential) and model.layers:
    name, first = next(_sequential(model, ()))
    return _in_shape(first, params.get(name, {}))
  if isinstance(model, GroupCNN) and model.in_shape is not None:
    return tuple(model.in_shape)
  if type(model) not in {*_NETWORKS, *_LAYERS}:
    raise _unknown(model)
  raise ValueError(
    f'cannot infer the shape of the inputs from this {type(model).__name__};'
    ' give the shape of one example: export(…, in_shape=(28, 28, 1))'
  )


def _unknown(model: nn.Module) -> ValueError:
  known = ', '.join(kind.__name__ for kind in (*_NETWORKS, *_LAYERS))
  return ValueError(
    f'export supports {known}, got {type(model).__name__}; write the model as'
    ' an nn.Sequential of these, or convert its parameters with to_dense'
  )


# The names of layers and the layers, or '' and functions, in order.
_Parts = Iterator[tuple[str, Any]]
_ADD_CHANNEL = functools.partial(jnp.expand_dims, axis=-1)


def _flatten(x: jax.Array) -> jax.Array:
  return x.reshape(len(x), -1)


def _sequential(model: nn.Sequential, shape: tuple[int, ...]) -> _Parts:
  del shape
  names: dict[int, str] = {}  # a layer may occur twice
  for i, layer in enumerate(model.layers):
    name = getattr(layer, 'name', None) or f'layers_{i}'  # as Flax does
    yield names.setdefault(id(layer), name), layer


def _mlp(model: EquivariantMLP, shape: tuple[int, ...]) -> _Parts:
  *hidden, head = model.sublayers().items()
  if hidden[0][1].features is not None and shape == model.in_shape:
    yield '', _ADD_CHANNEL
  for layer in hidden:
    yield layer
    yield '', model.activation
  if model.head == 'dense':
    yield '', _flatten
  yield head
  yield '', _flatten


def _group_cnn(model: GroupCNN, shape: tuple[int, ...]) -> _Parts:
  image_shape: Any = (*shape, 1) if len(shape) == 2 else shape
  if len(image_shape) != 3 or model.in_shape not in (None, image_shape):
    expected = model.in_shape or '(H, W, C)'
    raise ValueError(f'GroupCNN needs images {expected}, got shape {shape}')
  *convs, dense, last, head = model.sublayers(image_shape).items()
  if image_shape != shape:
    yield '', _ADD_CHANNEL
  for i, conv in enumerate(convs):
    yield conv
    yield '', nn.relu
    if i % 2:
      yield '', functools.partial(pooling.spatial_pool, group=model.group())
  if model.head == 'dense':
    yield '', _flatten
  yield dense
  yield '', nn.relu
  if model.head == 'invariant':
    yield '', pooling.group_pool
    yield '', _flatten
  yield last
  yield head


_NETWORKS: dict[type, Callable[[Any, tuple[int, ...]], _Parts]] = {
  EquivariantMLP: _mlp,
  GroupCNN: _group_cnn,
  nn.Sequential: _sequential,
}
_LAYERS = (EquivariantDense, EquivariantConv, nn.Dense, nn.Dropout)
