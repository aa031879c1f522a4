"""Conversion of parameters to plain layers and to less symmetric networks.

Legend: N input points, M output points, C input channels, F features.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from aen.groups import sharing as sharing_lib
from aen.nn import kernels
from aen.nn.conv import EquivariantConv
from aen.nn.dense import EquivariantDense
from aen.nn.layer import Params
from aen.nn.layer import SharedLayer

_NAMES = ('kernel', 'bias')  # of a layer's parameters


def sharing_variables(module: nn.Module) -> dict[str, Any]:
  """Returns the 'sharing' collection: the indices of a module's layers.

  Given this collection and parameters, another module of the same shapes (see
  `max_weights`) computes what `module` does. So one compiled program serves all
  networks, and collections stack for `jax.vmap`.
  """

  def collection(layer: nn.Module) -> dict[str, Any]:
    if parts := _sublayers(layer):
      return {name: collection(each) for name, each in parts.items()}
    if isinstance(layer, nn.Dense):
      return {}
    own = layer.sharing()
    return {'kernel': jnp.asarray(own.kernel), 'bias': jnp.asarray(own.bias)}

  return {'sharing': collection(module)}


def _sublayers(module: nn.Module) -> dict[str, nn.Module]:
  """Returns a network's layers by name, or {} for a layer."""
  if hasattr(module, 'sublayers'):
    return module.sublayers()
  if not isinstance(module, SharedLayer | nn.Dense):
    raise ValueError(
      'expected an equivariant layer, an EquivariantMLP or a GroupCNN, got'
      f' {type(module).__name__}; pass its equivariant layers one by one,'
      ' each with its own parameters, or give to_dense example inputs:'
      ' to_dense(model, variables, x)'
    )
  return {}


def to_dense(
  module: nn.Module, variables: Params, *args: Any, **kwargs: Any
) -> dict[str, Any]:
  """Returns parameters of plain Flax layers that compute the same function.

  Args:
    module: An `EquivariantDense`, an `EquivariantConv` or a network of them; or
      any Linen model that contains some, with example inputs.
    variables: Its variables, or its parameters alone.
    *args: Example inputs of any other Linen model. Its equivariant layers are
      those that `module.apply(variables, *args)` calls.
    **kwargs: Further arguments of `module.apply`.

  Returns:
    For a dense layer, the parameters {'kernel': [N * C, M * F], 'bias':
    [M * F]} of `nn.Dense(M * F)` on flattened inputs. For a convolution, those
    of `nn.Conv(|G| * F, kernel_size, …)` on inputs with merged group and
    channel axes. For a network, a dict of these by the layers' names. For
    another model, its parameters with those of equivariant layers replaced.
  """
  params = params_of(variables)
  if args or kwargs:
    return _whole_to_dense(module, variables, args, kwargs)
  if parts := _sublayers(module):
    _check_names(parts, params, 'parameters')
    return {n: to_dense(part, params[n]) for n, part in parts.items()}
  if isinstance(module, nn.Dense):
    names = sorted(_NAMES if module.use_bias else _NAMES[:1])
    if sorted(params) != names:
      raise ValueError(f'nn.Dense has parameters {names}, got {sorted(params)}')
    shape = np.shape(params['kernel'])
    if len(shape) != 2 or shape[1] != module.features:
      raise ValueError(
        f'a Dense layer of {module.features} features has a kernel of as many'
        f' columns, got shape {shape}'
      )
    return dict(params)
  return module.plain_parameters(params)


def params_of(variables: Params) -> Params:
  """Returns the parameters among a module's variables."""
  params = variables
  if isinstance(variables, Mapping):
    params = variables.get('params', variables)
  if not isinstance(params, Mapping):
    raise ValueError(
      'expected the variables of a module, {"params": …}, or its parameters'
      f' alone, got {type(params).__name__}; give what `init` returned'
    )
  return params


def _whole_to_dense(
  model: nn.Module, variables: Params, args: Any, kwargs: Any
) -> dict[str, Any]:
  """Replaces the parameters of all equivariant layers that a model calls."""
  if 'params' not in variables:
    variables = {'params': variables}
  params = traverse_util.flatten_dict(variables['params'])
  layers: dict[tuple[str, ...], nn.Module] = {}

  def record(
    call: Any, inputs: Any, options: Any, context: nn.module.InterceptorContext
  ) -> Any:
    layer = context.module
    if isinstance(layer, SharedLayer) and context.method_name == '__call__':
      as_stored = all(
        _same(params.get((*layer.path, n)), layer.get_variable('params', n))
        for n in _NAMES
      )
      if layer.has_variable('sharing', 'kernel') or not as_stored:
        raise ValueError(
          f'to_dense cannot convert the layer {"/".join(layer.path)} of'
          f' {type(model).__name__}: it does not use its parameters as they are'
          " stored (inside nn.scan, nn.vmap or nn.WeightNorm, or with 'sharing'"
          ' variables)'
        )
      layers[layer.path] = layer.clone(parent=None)
    return call(*inputs, **options)

  with nn.intercept_methods(record):
    model.apply(variables, *args, **kwargs)
  for path, layer in layers.items():
    own = {n: params[*path, n] for n in _NAMES if (*path, n) in params}
    for name, value in layer.plain_parameters(own).items():
      params[*path, name] = value
  return traverse_util.unflatten_dict(params)


def _same(stored: Any, used: Any) -> bool:
  """Compares arrays; inside `jit`, their shapes."""
  if stored is None or used is None or isinstance(used, jax.core.Tracer):
    return np.shape(stored) == np.shape(used)
  return np.array_equal(stored, used)


def _check_names(parts: Iterable[str], others: Params, what: str) -> None:
  if set(parts) != set(others):
    raise ValueError(
      f'expected {what} of the layers {sorted(parts)}, got {sorted(others)}'
    )


def expand(
  source: nn.Module, variables: Params, target: nn.Module
) -> dict[str, Any]:
  """Returns parameters of a less symmetric module that is the same function.

  For a warm start: train with more symmetry, then continue with less.

  Args:
    source: The module the parameters belong to.
    variables: Its variables, or its parameters alone.
    target: A module of the same shapes with fewer symmetries.

  Returns:
    Parameters for the target: `target.apply({'params': …}, x)`.

  Raises:
    ValueError: The target cannot be that function, because its shapes differ or
      it has a symmetry that the source lacks.
  """
  params = params_of(variables)
  if parts := _sublayers(target):
    sources = _sublayers(source)
    _check_names(parts, sources, 'a source')
    _check_names(sources, params, 'parameters')
    return {n: expand(sources[n], params[n], parts[n]) for n in parts}
  if isinstance(target, EquivariantConv):
    raise ValueError(
      f'expand is for dense layers, got {target!r}: the group is an axis of a'
      " convolution's features, so fewer symmetries mean other shapes; to_dense"
      ' gives the parameters of a plain network'
    )
  plain = to_dense(source, params)
  if 'kernel' not in plain:
    raise ValueError(
      'expand needs two layers or two networks, got'
      f' {type(source).__name__} and {type(target).__name__}'
    )
  if isinstance(target, nn.Dense):
    num_out = plain['kernel'].shape[1]
    if num_out != target.features:
      raise ValueError(
        f'expand needs layers of the same shapes, got {num_out} outputs for a'
        f' Dense layer of {target.features}'
      )
    return dict(plain)
  _check_refines(source, target, plain['kernel'].shape)
  own, features = target.sharing(), target.features or 1
  num_weights, bias_shape = target.parameter_sizes(own)
  kernel = kernels.first_entries(
    plain['kernel'], own.kernel, num_weights, features
  )
  expanded = {'kernel': kernel if target.features else kernel[:, 0, 0]}
  if target.use_bias:
    bias = plain.get('bias', jnp.zeros(own.bias.size * features))
    bias = kernels.first_entries(bias, own.bias, bias_shape[0], features)
    expanded['bias'] = bias.reshape(bias_shape)
  elif 'bias' in plain:
    raise ValueError(f'{target!r} has no bias and cannot hold the given one')
  return expanded


def _check_refines(
  source: nn.Module, target: nn.Module, plain_shape: tuple[int, ...]
) -> None:
  """Raises unless the source shares all entries that the target shares."""
  own = target.sharing()
  num_in, num_out = own.kernel.shape
  given = sharing_lib.dense_sharing((), num_in, num_out)
  if isinstance(source, EquivariantDense):
    given = source.sharing()
  channels = 1 if target.features is None else plain_shape[0] // num_in
  shape = num_in * channels, num_out * (target.features or 1)
  if given.kernel.shape != own.kernel.shape or plain_shape != shape:
    raise ValueError(
      f'expand needs layers of the same shapes, got a kernel {plain_shape} for'
      f' {target!r}'
    )
  for mine, theirs in ((own.kernel, given.kernel), (own.bias, given.bias)):
    first = kernels.first_positions(mine, int(mine.max()) + 1)[mine.ravel()]
    if not np.array_equal(theirs.ravel()[first], theirs.ravel()):
      raise ValueError(
        f'{target!r} shares weights that the source keeps apart, so it cannot'
        ' be the same function; expand from more symmetry to less'
      )
