"""ONNX files compute what our networks compute."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aen
from aen.groups import point_group
from aen.groups import symmetries
from aen.nn import export as export_lib
from aen.nn import group_cnn
from aen.nn import mlp as mlp_lib

onnx = pytest.importorskip('onnx')
runtime = pytest.importorskip('onnxruntime')

TOLERANCE = 1e-5  # of max|Δ| / max|y|
PLAIN = {
  *('Add', 'AveragePool', 'Conv', 'Div', 'Gemm', 'Identity', 'MatMul'),
  *('MaxPool', 'ReduceMax', 'ReduceMean', 'Reshape', 'Sub', 'Transpose'),
  *export_lib.ACTIVATIONS.values(),
}
P4 = point_group.group(('rotation',))


def normal(shape, seed=0):
  return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameters(model, x):
  """As large as initial ones, with biases, and without compiling."""
  shapes = jax.eval_shape(model.init, jax.random.key(0), x)

  def draw(path, leaf):
    scale = np.sqrt(max(1, np.prod(leaf.shape[:-1])))
    return normal(leaf.shape, seed=len(str(path))) / scale

  return jax.tree_util.tree_map_with_path(draw, shapes)


def check(model, shape, path, **options):
  """Exports a model with random parameters; returns the error of the file.

  The error is the largest max|Δ| / max|y| of batches of one and of seven.
  """
  x = normal((7, *shape))
  variables = parameters(model, x)
  aen.export(model, variables, path, **options)
  found = onnx.load(path)
  assert {node.op_type for node in found.graph.node} <= PLAIN
  assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == 'batch'
  session = runtime.InferenceSession(path)
  expected = np.asarray(model.apply(variables, x))
  errors = []
  for size in (1, 7):
    (got,) = session.run(None, {'input': x[:size]})
    assert got.shape == (size, *expected.shape[1:])
    difference = np.abs(got - expected[:size]).max()
    errors.append(difference / np.abs(expected[:size]).max())
  assert max(errors) <= TOLERANCE
  return max(errors), found


def operators(found):
  return [node.op_type for node in found.graph.node]


@functools.cache
def networks():
  """The shortest names of the 216 networks."""
  grids = [(28, 28), (20, 20), (20, 20)]
  return aen.lattice(symmetries.PAPER_SYMMETRIES, grids)


@pytest.mark.parametrize('head', mlp_lib.HEADS)
@pytest.mark.parametrize(
  'number',
  [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 215))],
)
def test_some_mlps(tmp_path, number, head):
  names = networks().names(number)
  model = aen.EquivariantMLP(names, head=head)
  _, found = check(model, (28, 28), tmp_path / 'mlp.onnx')
  assert operators(found) == [
    *('Reshape', 'Gemm', 'Relu', 'Gemm', 'Relu', 'Gemm', 'Identity')
  ]


@pytest.mark.slow
@pytest.mark.parametrize('head', mlp_lib.HEADS)
def test_all_216_mlps(tmp_path, head):
  assert len(networks()) == 216
  errors = [
    check(
      aen.EquivariantMLP(networks().names(number), head=head),
      (28, 28),
      tmp_path / 'mlp.onnx',
    )[0]
    for number in range(len(networks()))
  ]
  print(f'{len(errors)} MLPs, {head} head: error at most {max(errors):.1e}')


@pytest.mark.slow
@pytest.mark.parametrize(
  ('group', 'width', 'head'),
  [('none', 1.0, 'dense'), ('P4', 1.5, 'dense'), ('D4', 1.0, 'invariant')],
)
def test_some_group_cnns(tmp_path, group, width, head):
  model = aen.GroupCNN(
    group_cnn.GROUPS[group], width=width, head=head, in_shape=(28, 28, 1)
  )
  _, found = check(model, (28, 28, 1), tmp_path / 'cnn.onnx')
  convs = ['Conv', 'Relu', 'Conv', 'Relu', 'MaxPool'] * 2
  ends = {
    'dense': ['Reshape', 'Gemm', 'Relu', 'Gemm', 'Gemm'],
    'invariant': [
      *('Conv', 'Relu', 'Reshape', 'ReduceMax', 'Reshape', 'Gemm', 'Gemm')
    ],
  }
  assert operators(found) == ['Reshape', *convs, *ends[head], 'Identity']


@pytest.mark.slow
@pytest.mark.parametrize(
  ('in_shape', 'padding'), [((28, 28, 1), 'VALID'), ((32, 32, 3), 'SAME')]
)
def test_all_group_cnns(tmp_path, in_shape, padding):
  errors = []
  for names in group_cnn.GROUPS.values():
    for width in (1.0, 1.5):
      for head in mlp_lib.HEADS:
        model = aen.GroupCNN(
          names, width=width, head=head, in_shape=in_shape, padding=padding
        )
        got, found = check(model, in_shape, tmp_path / 'cnn.onnx')
        errors.append(got)
        # Channels are moved once, at the input.
        assert operators(found).count('Transpose') == (in_shape[-1] > 1)
  print(f'{len(errors)} CNNs {in_shape}: error at most {max(errors):.1e}')


@pytest.mark.slow
def test_grey_images_may_lack_the_axis_of_channels(tmp_path):
  model = aen.GroupCNN(('rotation',), in_shape=(4, 4), padding='SAME')
  for shape in ((4, 4), (4, 4, 1)):
    check(model, shape, tmp_path / 'cnn.onnx', in_shape=shape)


@pytest.mark.parametrize('shape', [(12, 12), (12, 12, 1), (12, 12, 3)])
@pytest.mark.parametrize('head', mlp_lib.HEADS)
def test_mlps_with_channels(tmp_path, shape, head):
  model = aen.EquivariantMLP(
    ('rotation',),
    num_classes=4,
    in_shape=(12, 12),
    hidden_shapes=((8, 8),),
    features=3,
    head=head,
    activation=nn.tanh,
  )
  check(model, shape, tmp_path / 'mlp.onnx', in_shape=shape)


def flatten(x):
  return x.reshape(x.shape[0], -1)


CONV = functools.partial(aen.EquivariantConv, ('rotation',), 3, (3, 3))
POOL = functools.partial(aen.spatial_pool, group=P4)
CHAINS = {
  'a dense layer': (
    [aen.EquivariantDense(('rotation',), (6, 6), (4, 4))],
    (6, 6),
  ),
  'a convolution': ([CONV(lifting=True)], (6, 6, 2)),
  'strides, dilation, no bias': (
    [CONV(lifting=True, strides=2), CONV(kernel_dilation=2, use_bias=False)],
    (9, 9, 2),
  ),
  'padding by numbers': ([CONV(lifting=True, padding=2)], (6, 6, 2)),
  'dense layers': (
    [
      aen.EquivariantDense(('rotation',), (6, 6), (4, 4), use_bias=False),
      nn.relu,
      flatten,
      nn.Dropout(0.5, deterministic=True),
      nn.Dense(5),
      nn.softplus,
      nn.Dense(3, use_bias=False),
    ],
    (6, 6),
  ),
  'convolutions and pooling': (
    [
      CONV(lifting=True),
      nn.elu,
      POOL,
      CONV(),
      functools.partial(aen.group_pool, how='mean'),
      nn.leaky_relu,
      flatten,
      nn.Dense(3),
    ],
    (8, 8, 2),
  ),
  'mean pooling, then no more': (
    [CONV(lifting=True), functools.partial(POOL, how='mean', window=3)],
    (9, 9, 1),
  ),
  'nn.Dense on the last axis': (
    [CONV(lifting=True), nn.Dense(5), nn.sigmoid, nn.Dense(2, use_bias=False)],
    (5, 5, 2),
  ),
  'a group pooled in rows': (
    [CONV(lifting=True), nn.Dense(5), aen.group_pool, nn.soft_sign],
    (5, 5, 2),
  ),
  'dense, then convolution': (
    [
      aen.EquivariantDense(('rotation',), (6, 6), (5, 5), features=2),
      CONV(lifting=True),
    ],
    (6, 6, 3),
  ),
  'a sequence': (
    [
      aen.EquivariantConv((np.flip,), 2, (3,), lifting=True),
      nn.relu,
      aen.EquivariantConv((np.flip,), 2, (3,)),
    ],
    (8, 1),
  ),
  'a volume': (
    [aen.EquivariantConv((), 2, (3, 3, 3), lifting=True)],
    (4, 4, 4, 2),
  ),
  'networks in a network': (
    [
      nn.Sequential([aen.EquivariantMLP(('rotation',), 16, (6, 6), ((4, 4),))]),
      lambda x: x.reshape(-1, 4, 4, 1),
      aen.GroupCNN(('rotation',), padding='SAME'),
    ],
    (6, 6),
  ),
}


@pytest.mark.parametrize('chain', CHAINS)
def test_chains(tmp_path, chain):
  layers, shape = CHAINS[chain]
  check(nn.Sequential(layers), shape, tmp_path / 'chain.onnx', in_shape=shape)


def test_a_layer_that_occurs_twice_is_stored_once(tmp_path):
  layer = aen.EquivariantDense(('rotation',), (6, 6), (6, 6))
  model = nn.Sequential([layer, nn.relu, layer])
  _, found = check(model, (6, 6), tmp_path / 'twice.onnx')
  kernels = [w.name for w in found.graph.initializer if 'kernel' in w.name]
  assert kernels == ['layers_0.kernel']


def test_single_layers(tmp_path):
  dense = aen.EquivariantDense(('rotation',), (6, 6), (4, 4), features=2)
  check(dense, (6, 6, 3), tmp_path / 'layer.onnx')
  check(
    CONV(lifting=True), (6, 6, 3), tmp_path / 'layer.onnx', in_shape=(6, 6, 3)
  )


def test_padded_parameters(tmp_path):
  model = aen.EquivariantMLP(
    ('rotation',), 3, (8, 8), ((4, 4),), max_weights=(400,)
  )
  check(model, (8, 8), tmp_path / 'padded.onnx')


def test_scaling_and_metadata(tmp_path):
  model = aen.EquivariantMLP(('rotation',), 3, (8, 8), ((4, 4),))
  pixels = np.random.default_rng(0).integers(0, 256, (7, 8, 8))
  pixels = pixels.astype(np.float32)
  variables = parameters(model, pixels)
  path, names = tmp_path / 'scaled.onnx', ('ö', 'cat', 'dog')
  aen.export(model, variables, path, class_names=names, mean=33.3, std=78.6)
  (got,) = runtime.InferenceSession(path).run(None, {'input': pixels})
  expected = model.apply(variables, (pixels - 33.3) / 78.6)
  np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
  found = onnx.load(path)
  metadata = {p.key: json.loads(p.value) for p in found.metadata_props}
  assert metadata == {
    'class_names': [*names],
    'mean': 33.3,
    'std': 78.6,
    'symmetries': ['rotation'],
  }
  assert (found.opset_import[0].version, found.ir_version) == (13, 7)


@pytest.mark.slow
def test_the_best_network_of_a_search_takes_raw_pixels(tmp_path):
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (120, 6, 6), np.uint8)
  labels = (images[:, :, :3].mean((1, 2)) > images.mean((1, 2))).astype(int)
  result = aen.discover(
    images,
    labels,
    class_names=('left', 'right'),
    symmetries=['vertical_flip'],
    recipe=aen.Recipe(epochs=2, batch_size=16),
    top=1,
    retrain_seeds=1,
    retrain_epochs=1,
    run_dir=tmp_path,
  )
  for best in (result.best, aen.SearchResult.load(tmp_path).best):
    best.export(tmp_path / 'best.onnx')
    session = runtime.InferenceSession(tmp_path / 'best.onnx')
    (scores,) = session.run(None, {'input': images.astype(np.float32)})
    expected = best.model.apply(best.variables, best.scaling(images))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    assert (scores.argmax(-1) == best.predict(images)).all()
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata['class_names']) == ['left', 'right']
    assert json.loads(metadata['mean']) == best.scaling.mean


RECIPE = re.findall(
  r'^```py\n(.*?)^```',
  (pathlib.Path(__file__).parents[2] / 'docs/export.md').read_text('utf-8'),
  re.M | re.S,
)
IN_TORCH = """
import importlib.util
assert importlib.util.find_spec('aen') is None
exec(''.join({snippets!r}))
x, expected = torch.from_numpy(np.load('x.npy')), np.load('y.npy')
with torch.no_grad():
  errors = [
    np.abs(({model})(x[:size]).numpy() - expected[:size]).max()
    for size in (1, 7)
  ]
print(max(errors) / np.abs(expected).max())
"""
TORCH = {
  'MLP, dense head': (
    aen.EquivariantMLP(('rotation',)),
    (28, 28),
    RECIPE[:2],
    'model',
  ),
  'MLP, invariant head': (
    aen.EquivariantMLP(('rotation', 'vertical_flip'), head='invariant'),
    (28, 28),
    RECIPE[:2],
    'model',
  ),
  'CNN': (
    aen.GroupCNN(('rotation', 'horizontal_flip'), in_shape=(28, 28, 3)),
    (28, 28, 3),
    [RECIPE[0], 'from torch import nn\n', RECIPE[2]],
    'lambda x: CNN(weights)(x.movedim(-1, 1))',
  ),
}


@pytest.mark.slow
@pytest.mark.parametrize('kind', TORCH)
def test_the_recipe_for_pytorch(tmp_path, kind):
  """In an environment of its own, with PyTorch and without `aen`."""
  if not (python := os.environ.get('AEN_TORCH_PYTHON')):
    pytest.skip('name a Python that has PyTorch in AEN_TORCH_PYTHON')
  model, shape, snippets, call = TORCH[kind]
  x = normal((7, *shape))
  variables = parameters(model, x)
  plain = traverse_util.flatten_dict(aen.to_dense(model, variables), sep='.')
  np.savez(tmp_path / 'plain.npz', **plain)
  np.save(tmp_path / 'x.npy', x)
  np.save(tmp_path / 'y.npy', model.apply(variables, x))
  run = subprocess.run(
    [python, '-c', IN_TORCH.format(snippets=snippets, model=call)],
    cwd=tmp_path,
    env={'PATH': ''},
    capture_output=True,
    text=True,
    check=False,
  )
  assert not run.returncode, run.stderr
  print(f'{kind} in PyTorch: error {float(run.stdout):.1e}')
  assert float(run.stdout) <= TOLERANCE


class Mine(nn.Module):
  @nn.compact
  def __call__(self, x):
    return aen.EquivariantDense(('rotation',), (4, 4), (2, 2))(x)


class Subclass(aen.EquivariantDense):
  pass


DENSE = aen.EquivariantDense(('rotation',), (4, 4), (4, 4))
REFUSED = {
  'a model of another kind': (Mine(), (4, 4), 'nn.Sequential of these'),
  'a subclass': (Subclass((), 4, 4), (4,), 'got Subclass'),
  'a layer of another kind': (
    nn.Sequential([DENSE, nn.LayerNorm()]),
    (4, 4),
    'got LayerNorm',
  ),
  'another function': (nn.Sequential([DENSE, nn.gelu]), (4, 4), 'got .*gelu'),
  'options of a function': (
    nn.Sequential([DENSE, functools.partial(nn.elu, alpha=2)]),
    (4, 4),
    'functions that only reshape',
  ),
  'a clipping function': (
    nn.Sequential([DENSE, nn.relu6]),
    (4, 4),
    'functions that only reshape',
  ),
  'a sum': (
    nn.Sequential([DENSE, lambda x: x.sum()]),
    (4, 4),
    'functions that only reshape',
  ),
  'half precision': (
    DENSE.clone(dtype=jnp.bfloat16),
    (4, 4),
    'computes in float32, got EquivariantDense with dtype bfloat16',
  ),
  'another activation': (
    aen.EquivariantMLP((), 2, (4, 4), ((2, 2),), activation=jnp.sin),
    (4, 4),
    'got .*sin',
  ),
}


@pytest.mark.parametrize('case', REFUSED)
def test_what_cannot_be_exported_is_one_line(tmp_path, case):
  model, shape, message = REFUSED[case]
  variables = model.init(jax.random.key(0), jnp.ones((1, *shape)))
  path = tmp_path / 'no.onnx'
  for options in ({}, {'in_shape': shape}):
    with pytest.raises(ValueError, match=message) as caught:
      aen.export(model, variables, path, **options)
    assert '\n' not in str(caught.value)
  assert not path.exists()


def test_shapes_and_parameters_that_do_not_fit_are_one_line(tmp_path):
  path = tmp_path / 'no.onnx'
  rotations = aen.group('rotation')
  pool = functools.partial(aen.spatial_pool, group=rotations, window=2)
  with pytest.raises(ValueError, match='spatial_pool needs 2 axes'):
    aen.export(nn.Sequential([pool]), {}, path, in_shape=(8,))
  cnn = aen.GroupCNN(())
  params = cnn.init(jax.random.key(0), jnp.ones((1, 16, 16, 1)))['params']
  with pytest.raises(ValueError, match='cannot infer the shape of the inputs'):
    aen.export(cnn, params, path)
  with pytest.raises(
    ValueError, match=r'Dense needs inputs of shape .*in_shape'
  ):
    aen.export(cnn, params, path, in_shape=(20, 20, 1))
  with pytest.raises(ValueError, match='GroupCNN needs images'):
    aen.export(cnn, params, path, in_shape=(16,))
  layer = aen.EquivariantDense((), (4, 4), (2, 2))
  with pytest.raises(ValueError, match='belong to another layer'):
    aen.export(layer, params, path)
  model = nn.Sequential([nn.Dense(2)])
  with pytest.raises(ValueError, match=r"\['bias', 'kernel'\], got \[\]"):
    aen.export(model, {}, path, in_shape=(3,))
  own = layer.init(jax.random.key(0), jnp.ones((1, 4, 4)))
  with pytest.raises(ValueError, match=r"collections \['sharing'\] too"):
    aen.export(layer, {**own, **aen.sharing_variables(layer)}, path)
  with pytest.raises(ValueError, match='one per output, got 3'):
    aen.export(layer, own, path, class_names='abc')
  with pytest.raises(ValueError, match='std positive, got 0 and 0'):
    aen.export(layer, own, path, mean=0, std=0)


def test_onnx_is_imported_only_to_write(tmp_path):
  code = (
    'import sys; sys.modules["onnx"] = None\n'
    'import aen; aen.export\n'
    'try: aen.export(None, {}, "x")\n'
    'except ModuleNotFoundError as error: print(error)'
  )
  run = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, check=True
  )
  assert run.stdout == 'aen.export needs onnx; pip install "aen[onnx]"\n'
