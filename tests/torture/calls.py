"""Random calls of every public name, each with an independent oracle.

A call is a public name, its arguments, of which often one is hostile, and an
oracle: a function of what was returned that is true if that is right. Oracles
use NumPy, SciPy and literal loops.
"""

import functools
import itertools
import math
import pathlib
import tempfile
from typing import Any, NamedTuple

from flax import linen as nn
import jax
import numpy as np
from scipy import sparse

import aen
from aen.train import child as child_lib
from aen.train import store as store_lib


class Call(NamedTuple):
  """What is called, with what, and whether a result is right."""

  fn: Any
  args: dict[str, Any]
  right: Any


def _fails(x):
  raise KeyError('as users do')


NUMBERS = [
  *(-1, 0, 1, 2, 3, 1.5, math.nan, math.inf, None, 'a', '', 2**70, -(2**70)),
  *([], [1, 2], (), {}, b'x', 1j, np.int64(2), np.float32(2), np.ones(2)),
  *(object(), len, True, np.array(3), 1e300, np.uint8(200)),
]
SHAPES = [
  *((), (0,), (-1, 4), (1.5, 4), 'ab', None, (2**40, 2**40), [[4, 4]], {}),
  *((4, None), np.array([4, 4]), np.int64(4), 4, 4.0, object(), (10**10,)),
  *((100000, 100000), [4, [4]], (4, 4, 4), b'ab', {4}, (math.nan, 4), (4, 'a')),
]
SYMMETRIES = [
  *('rotatoin', '', 3, [None], [3], 'rotation', {'a': 'rotation'}, b'rotation'),
  *(lambda x: x * 0, np.sort, lambda x: x.max() - x, _fails, lambda x: None),
  *(lambda x: x[:1], [['rotation']], np.array(['rotation']), 1.5, object()),
  *(('rotation', 'rotation'), lambda: 0, lambda x: x / 1.0, np.abs, [len]),
  *(lambda x: x.astype(float), lambda x: x.tolist(), None, [], 'r' * 5000),
]
TEXTS = [
  None,
  3,
  '',
  'x',
  b'x',
  [],
  object(),
  'x' * 5000,
  '\ud800',
  'a\nb',
  1.5,
]
ARRAYS = [
  *(
    None,
    'a',
    3,
    [],
    [[]],
    object(),
    [[1], [1, 2]],
    np.zeros(0),
    np.zeros((2, 0)),
  ),
  *(np.full((4, 4), np.nan), np.full((4, 4), np.inf), np.array(['a', 'b'])),
  *(
    np.array([None, 1]),
    np.ones(3, complex),
    np.ones((2, 2, 2, 2, 2)),
    {},
    len,
  ),
  *(
    np.array([2**62, 1]),
    np.array([-1, 0]),
    np.array([0.5, 1.5]),
    np.eye(2) > 0,
  ),
]


class Draw:
  """Random arguments."""

  def __init__(self, seed):
    self.rng = np.random.default_rng(seed)
    self.spoils = self.rng.random() < 0.6

  def pick(self, options):
    return options[self.rng.integers(len(options))]

  def some(self, options, most=3):
    count = self.rng.integers(min(most, len(options)) + 1)
    order = self.rng.permutation(len(options))[:count]
    return tuple(options[i] for i in order)

  def number(self, low, high):
    return int(self.rng.integers(low, high + 1))

  def grid(self):
    return self.pick([(2, 2), (3, 3), (4, 4), (4, 2), (6,), (2, 2, 2), (1, 3)])

  def images(self, *shape):
    return self.rng.normal(size=shape).astype(np.float32)

  def labels(self, n):
    labels = self.rng.integers(0, 1 + self.number(0, 4), n)
    return labels.astype(self.pick([np.int32, np.int64]))

  def symmetries(self, *grids):
    """Returns some that act on all of these grids."""
    flip = [
      aen.Symmetry(f'flip_{i}', functools.partial(np.flip, axis=i))
      for i in range(min(map(len, grids)))
    ]
    roll = aen.Symmetry('roll', functools.partial(np.roll, shift=1, axis=0))
    known = [*flip, roll]
    if all(len(g) == 2 for g in grids):
      known += ['horizontal_flip', 'vertical_translation']
    if all(len(g) == 2 and g[0] == g[1] for g in grids):
      known += ['rotation', np.transpose]
    if all(len(g) == 2 and not any(s % 2 for s in g) for g in grids):
      known += ['rotation_scramble', 'left_vertical_scramble']
    return list(self.some(known))

  def spoil(self, args, **pools):
    """Replaces one argument by a hostile one, more often than not."""
    if self.spoils:
      name = self.pick(list(pools))
      args = args | {name: self.pick(pools[name])}
    return args


def canonical(labels):
  """Numbers classes by first occurrence, literally."""
  seen = {}
  return [
    seen.setdefault(label, len(seen)) for label in np.asarray(labels).tolist()
  ]


def components(links, count):
  """Returns the classes that links [K, 2] join, by SciPy."""
  links = np.asarray(links, int).reshape(-1, 2)
  graph = sparse.coo_matrix((np.ones(len(links)), links.T), (count, count))
  return canonical(sparse.csgraph.connected_components(graph, False)[1])


def act(symmetry, grid):
  """Returns a symmetry as a permutation, by applying it to random numbers."""
  symmetry = (
    aen.SYMMETRIES.get(symmetry, symmetry)
    if isinstance(symmetry, str)
    else symmetry
  )
  values = np.random.default_rng(5).permutation(math.prod(grid)) * 7.0
  moved = np.asarray(symmetry(values.reshape(grid))).ravel()
  return np.array([int(np.flatnonzero(values == v)[0]) for v in moved])


def as_list(symmetries):
  if isinstance(symmetries, dict):
    symmetries = list(symmetries.values())
  if isinstance(symmetries, str) or callable(symmetries):
    symmetries = [symmetries]
  return [] if symmetries is None else list(symmetries)


def dense_labels(symmetries, in_shape, out_shape, invariant=False):
  """Returns the kernel's classes and the bias's, by components of pairs."""
  grid_in, grid_out = sides(in_shape), sides(out_shape)
  n, m = math.prod(grid_in), math.prod(grid_out)
  links, bias = [], []
  for symmetry in as_list(symmetries):
    p = act(symmetry, grid_in)
    q = np.arange(m) if invariant else act(symmetry, grid_out)
    links += [(i * m + j, p[i] * m + q[j]) for i in range(n) for j in range(m)]
    bias += list(enumerate(q))
  return np.reshape(components(links, n * m), (n, m)), components(bias, m)


def sides(shape):
  return tuple(np.atleast_1d(np.asarray(shape)).tolist())


def close(got, expected):
  got, expected = np.asarray(got), np.asarray(expected)
  return got.shape == expected.shape and np.allclose(
    got, expected, 1e-3, 1e-4, equal_nan=True
  )


# The public names in turn.


def version(draw):
  return Call(lambda: aen.__version__, {}, lambda v: v.count('.') == 2)


def symmetry(draw):
  args = {'name': 'mine', 'fn': draw.pick([np.flip, lambda x: x[::-1]])}
  args = draw.spoil(args, name=TEXTS, fn=[None, 3, 'rotation', [], object()])
  x = draw.images(4, 4)
  return Call(
    aen.Symmetry,
    args,
    lambda s: s.name == args['name'] and (s(x) == args['fn'](x)).all(),
  )


def named_symmetries(draw):
  literal = {
    'rotation': np.rot90,
    'horizontal_flip': lambda x: x[:, ::-1],
    'vertical_flip': lambda x: x[::-1],
    'horizontal_translation': lambda x: np.roll(x, 4, 1),
    'vertical_translation': lambda x: np.roll(x, 4, 0),
    'horizontal_scramble': lambda x: np.roll(x, x.shape[1] // 2, 1),
    'vertical_scramble': lambda x: np.roll(x, len(x) // 2, 0),
  }
  name = draw.pick(list(literal))
  args = draw.spoil(
    {'array': draw.images(*draw.pick([(4, 4), (6, 6), (4, 4, 2)]))},
    array=[draw.images(3), draw.images(3, 4), draw.images(5, 3), draw.images()],
  )
  return Call(
    aen.SYMMETRIES[name],
    args,
    lambda y: (y == literal[name](args['array'])).all(),
  )


def group(draw):
  ndim = draw.pick([1, 2, 2, 2, 3])
  swap = aen.Symmetry('swap', lambda x: np.swapaxes(x, 0, x.ndim - 1))
  flip = aen.Symmetry('flip', np.flipud)
  last = aen.Symmetry('last', lambda x: np.flip(x, -1))
  args = {'symmetries': list(draw.some([swap, flip, last])), 'ndim': ndim}
  args = draw.spoil(args, symmetries=SYMMETRIES, ndim=NUMBERS)

  def right(found):
    grid = (5,) * int(args['ndim'])
    generators = [act(s, grid) for s in as_list(args['symmetries'])]
    elements = {tuple(range(math.prod(grid)))}
    while True:
      more = {
        tuple(np.array(e)[g].tolist()) for e in elements for g in generators
      }
      if more <= elements:
        return found.order == len(elements) == len(found.table)
      elements |= more

  return Call(aen.group, args, right)


def permutation(draw):
  grid = draw.grid()
  args = {'symmetry': (draw.symmetries(grid) or [np.flip])[0], 'shape': grid}
  args = draw.spoil(args, symmetry=SYMMETRIES, shape=SHAPES)

  def right(p):
    grid = sides(args['shape'])
    (symmetry,) = as_list(args['symmetry'])
    return p.dtype == np.int32 and (p == act(symmetry, grid)).all()

  return Call(aen.permutation, args, right)


PERMUTATIONS = [
  *ARRAYS,
  *(
    np.array([0.9, 1.7]),
    [0, 0],
    [1, 2],
    [0, 2**32 + 1],
    np.array([1, 0], np.uint8),
  ),
]


def pair(draw):
  p, q = (draw.rng.permutation(draw.number(1, 9)) for _ in range(2))
  args = {'perm_in': p, 'perm_out': q}
  args = draw.spoil(args, perm_in=PERMUTATIONS, perm_out=PERMUTATIONS)

  def right(found):
    p, q = map(list, args.values())
    literal = [a * len(q) + b for a in p for b in q]
    return sorted(literal) == list(range(len(p) * len(q))) and (
      found.tolist() == literal
    )

  return Call(aen.pair, args, right)


def orbits(draw):
  n = draw.number(1, 12)
  some = [draw.rng.permutation(n) for _ in range(draw.number(0, 3))]
  args = draw.spoil(
    {'permutations': some, 'num_points': n},
    permutations=[[p] for p in PERMUTATIONS] + [None, 3, 'ab'],
    num_points=NUMBERS,
  )

  def right(labels):
    count = int(args['num_points'])
    perms = [list(p) for p in args['permutations']]
    if any(sorted(p) != list(range(count)) for p in perms):
      return False
    links = [link for p in perms for link in enumerate(p)]
    return labels.tolist() == components(links, count)

  return Call(aen.orbits, args, right)


def join(draw):
  n = draw.number(1, 10)
  args = {str(i): draw.rng.integers(0, 5, n) for i in range(draw.number(1, 3))}
  args = draw.spoil(args, **{name: ARRAYS for name in args})

  def right(found):
    links = [
      (i, j)
      for part in map(list, args.values())
      for i in range(len(part))
      for j in range(i)
      if part[i] == part[j]
    ]
    return found.tolist() == components(links, len(args['0']))

  return Call(lambda **parts: aen.join(*parts.values()), args, right)


def sharing(draw):
  labels = np.array(canonical(draw.rng.integers(0, 5, 12)), np.int32)
  args = {'kernel': labels.reshape(3, 4), 'bias': np.arange(4, dtype=np.int32)}
  args = draw.spoil(args, kernel=ARRAYS, bias=ARRAYS)
  return Call(
    aen.Sharing,
    args,
    lambda s: s.num_weights == 1 + max(np.ravel(args['kernel']).tolist()),
  )


def dense_sharing(draw):
  a, b = draw.grid(), draw.grid()
  symmetries = draw.symmetries(a, b)
  args = {'symmetries': symmetries, 'in_shape': a, 'out_shape': b}
  args['invariant'] = bool(draw.number(0, 1))
  args = draw.spoil(
    args, symmetries=SYMMETRIES, in_shape=SHAPES, out_shape=SHAPES
  )

  def right(found):
    kernel, bias = dense_labels(**args)
    return (found.kernel == kernel).all() and found.bias.tolist() == bias

  return Call(aen.dense_sharing, args, right)


def conv_sharing(draw):
  args = {
    'group': list(draw.some(['rotation', 'horizontal_flip', 'vertical_flip'])),
    'kernel_shape': draw.pick([(3, 3), (1, 1), (2, 2), (5, 5)]),
    'lifting': bool(draw.number(0, 1)),
  }
  args = draw.spoil(args, group=SYMMETRIES, kernel_shape=SHAPES, lifting=[0, 1])

  def right(found):
    # G acts freely on its own elements: one weight per |G| entries.
    order = found.kernel.shape[-1]
    sides, labels = found.kernel.shape, found.kernel.ravel()
    counts = np.bincount(labels)
    return (counts == order).all() and labels.size == math.prod(sides)

  return Call(aen.conv_sharing, args, right)


def lattice_args(draw):
  grids = [draw.pick([(2, 2), (4, 4), (3, 3), (4, 2)]) for _ in range(2)]
  args = {'symmetries': draw.symmetries(*grids), 'grids': grids}
  return draw.spoil(
    args, symmetries=SYMMETRIES, grids=[*SHAPES, [(4, 4)], [(4, 4), None]]
  )


def network_numbers(args):
  """Numbers the distinct sharings of all subsets, by their first state."""
  table = as_list(args['symmetries'])
  layers = list(itertools.pairwise(args['grids']))
  kernels = [
    b''.join(
      np.asarray(
        dense_labels([s for k, s in enumerate(table) if i >> k & 1], *pair)[0]
      ).tobytes()
      for pair in layers
    )
    for i in range(2 ** len(table))
  ]
  return canonical(np.array([hash(kernel) for kernel in kernels]))


def lattice(draw):
  args = lattice_args(draw)
  return Call(
    aen.lattice,
    args,
    lambda found: found.network_of.tolist() == network_numbers(args),
  )


def distinct_networks(draw):
  args = lattice_args(draw)
  return Call(
    aen.distinct_networks,
    args,
    lambda found: found[0].tolist() == network_numbers(args),
  )


LATTICE = aen.lattice(
  ('rotation', 'horizontal_flip', 'vertical_flip'), [(4, 4), (4, 4)]
)


def lattice_methods(draw):
  method = draw.pick(['network', 'implied', 'state', 'shortest'])
  names = draw.some([s.name for s in LATTICE.symmetries])
  one = (
    {'network': draw.number(0, 5)}
    if method == 'shortest'
    else {'symmetries': names}
  )
  pool = NUMBERS if method == 'shortest' else SYMMETRIES
  args = draw.spoil(one, **{next(iter(one)): pool})

  def right(found):
    if method == 'shortest':
      return {LATTICE.network(names) for names in found} == {args['network']}
    bits = [s.name for s in LATTICE.symmetries]
    state = sum(1 << bits.index(n) for n in set(as_list(args['symmetries'])))
    number = LATTICE.network_of[state]
    return {
      'state': lambda: found == state,
      'network': lambda: found == number,
      'implied': lambda: LATTICE.network(found) == number,
    }[method]()

  return Call(getattr(LATTICE, method), args, right)


def alg1(draw):
  n = draw.number(1, 9)
  groups = [
    [draw.rng.permutation(n).tolist() for _ in range(draw.number(0, 2))]
    for _ in range(draw.number(0, 2))
  ]
  args = {'groups': groups, 'num_points': n}
  args = draw.spoil(
    args, groups=[[[p]] for p in PERMUTATIONS] + [3, None], num_points=NUMBERS
  )

  def right(labels):
    count = int(args['num_points'])
    perms = [list(p) for g in args['groups'] for p in g]
    if any(sorted(p) != list(range(count)) for p in perms):
      return False
    links = [link for p in perms for link in enumerate(p)]
    return labels.tolist() == components(links, count)

  return Call(aen.alg1, args, right)


def alg2(draw):
  n = draw.number(1, 6)
  cycle = np.roll(np.arange(n), 1)
  elements = [np.arange(n)]
  for _ in range(n - 1):
    elements.append(elements[-1][cycle])
  if draw.number(0, 1):
    elements = [np.arange(n), np.arange(n)[::-1]]
  args = {'elements': [e.tolist() for e in elements], 'num_points': n}
  args = draw.spoil(
    args, elements=[[p] for p in PERMUTATIONS] + [3, None], num_points=NUMBERS
  )

  def right(labels):
    count = int(args['num_points'])
    perms = [list(p) for p in args['elements']]
    if any(sorted(p) != list(range(count)) for p in perms):
      return False
    links = [link for p in perms for link in enumerate(p)]
    return labels.tolist() == components(links, count)

  return Call(aen.alg2, args, right)


def assert_equivariant(draw):
  """Either passes or raises an AssertionError, and the oracle knows which."""
  grid = draw.pick([(4, 4), (2, 2), (6,)])
  symmetries = draw.symmetries(grid) or [aen.Symmetry('f', np.flip)]
  ramp = np.arange(math.prod(grid), dtype=np.float32).reshape(grid)
  fn, equivariant = draw.pick(
    [
      (np.tanh, True),
      (lambda x: x + x.mean(tuple(range(1, x.ndim)), keepdims=True), True),
      (lambda x: np.exp(1j * x), True),
      (lambda x: 1j * x * ramp, False),
      (lambda x: x * ramp, False),
      (lambda x: np.sort(x, 1), None),
    ]
  )
  args = {
    'fn': fn,
    'symmetries': symmetries,
    'in_shape': grid,
    'out_shape': grid,
  }
  args['x'] = draw.images(2, *grid)
  args = draw.spoil(
    args,
    symmetries=SYMMETRIES,
    in_shape=SHAPES,
    out_shape=SHAPES,
    x=[x for x in ARRAYS if x is not None],
    fn=[None, 3, lambda x: None, lambda x: x[:1], lambda x: 5.0, 'a'],
  )

  def checked(**args):
    try:
      aen.assert_equivariant(**args)
    except AssertionError:
      return False
    return True

  def right(passed):
    x, y = np.asarray(args['x']), np.asarray(args['fn'](np.array(args['x'])))
    same = True
    for symmetry in as_list(args['symmetries']):
      p = act(symmetry, sides(args['in_shape']))
      moved = x.reshape(len(x), len(p), -1)[:, p].reshape(x.shape)
      got = np.asarray(args['fn'](moved.copy()))
      expected = y
      if args['out_shape'] is not None:
        q = act(symmetry, sides(args['out_shape']))
        expected = y.reshape(len(y), len(q), -1)[:, q].reshape(y.shape)
      same &= np.allclose(got, expected, 1e-4, 1e-5)
    return passed == same

  return Call(checked, args, right)


def equivariant_dense(draw):
  a, b = (draw.pick([(2, 2), (4, 4), (6,)]) for _ in range(2))
  if len(a) != len(b):
    b = a
  features = draw.pick([None, 1, 3])
  args = {
    'symmetries': draw.symmetries(a, b),
    'in_shape': a,
    'out_shape': b,
    'features': features,
    'invariant': bool(draw.number(0, 1)),
    'method': draw.pick(['gather', 'spectral', 'auto']),
  }
  args = draw.spoil(
    args,
    symmetries=SYMMETRIES,
    in_shape=SHAPES,
    out_shape=SHAPES,
    features=NUMBERS,
    method=TEXTS,
    x=ARRAYS,
  )
  x = args.pop('x', draw.images(2, *a, *([] if features is None else [2])))
  shown = args | {'x': x}

  def apply(**_):
    layer = aen.EquivariantDense(**args)
    y, variables = layer.init_with_output(jax.random.key(0), x)
    return y, variables['params']

  def right(found):
    y, params = found
    own = {
      n: args[n] for n in ('symmetries', 'in_shape', 'out_shape', 'invariant')
    }
    kernel, bias = dense_labels(**own)
    weights = np.asarray(params['kernel'], np.float64)[kernel]
    batch = np.asarray(x, np.float64)
    if args['features'] is None:
      flat = batch.reshape(-1, len(kernel)) @ weights
    else:
      flat = batch.reshape(-1, len(kernel), weights.shape[2])
      flat = np.einsum('bnc,nmcf->bmf', flat, weights)
    flat = flat + np.asarray(params['bias'])[bias]
    return close(y, flat.reshape(y.shape))

  return Call(apply, shown, right)


def shared_dense(draw):
  n, m, w = 4, 3, 5
  channels = draw.number(0, 1)
  args = {
    'x': draw.images(2, n, *([2] if channels else [])),
    'weights': draw.images(w, *([2, 3] if channels else [])),
    'index': draw.rng.integers(0, w, (n, m)).astype(np.int32),
  }
  if draw.number(0, 1):
    args['bias'] = draw.images(2, *([3] if channels else []))
    args['bias_index'] = np.array([0, 1, 1])
  pools = {name: ARRAYS for name in args}
  args = draw.spoil(
    args, **pools, **{'index ': [np.full((n, m), 9), np.full((n, m), -1)]}
  )
  if 'index ' in args:
    args['index'] = args.pop('index ')

  def right(y):
    kernel = np.asarray(args['weights'])[np.asarray(args['index'])]
    x = np.asarray(args['x'])
    if kernel.ndim == 2:
      literal = np.einsum('...n,nm->...m', x, kernel)
    else:
      literal = np.einsum('...nc,nmcf->...mf', x, kernel)
    if args.get('bias') is not None:
      literal = (
        literal + np.asarray(args['bias'])[np.asarray(args['bias_index'])]
      )
    return (np.asarray(args['index']) >= 0).all() and close(y, literal)

  return Call(aen.shared_dense, args, right)


def correlate(x, kernel, pads, stride):
  """Correlates [B, H, W, C] with [h, w, C, F], literally."""
  x = np.pad(x, ((0, 0), *pads, (0, 0)))
  h, w = kernel.shape[:2]
  rows = range(0, x.shape[1] - h + 1, stride)
  columns = range(0, x.shape[2] - w + 1, stride)
  return np.stack(
    [
      np.stack(
        [
          np.einsum('bhwc,hwcf->bf', x[:, i : i + h, j : j + w], kernel)
          for j in columns
        ],
        1,
      )
      for i in rows
    ],
    1,
  )


def _pads(padding, side):
  if padding == 'VALID':
    return ((0, 0), (0, 0))
  if padding == 'SAME':
    total = side - 1
    return ((total // 2, total - total // 2),) * 2
  each = (padding,) * 2 if np.ndim(padding) == 0 else padding
  return [(p, p) if np.ndim(p) == 0 else tuple(p) for p in each]


def shared_conv(draw):
  args = {
    'x': draw.images(2, 4, 4, 2),
    'weights': draw.images(9, 2, 3),
    'index': aen.conv_sharing(('rotation',), (3, 3), True).kernel,
    'lifting': True,
    'padding': draw.pick(['SAME', 'VALID', 1]),
  }
  args = draw.spoil(
    args,
    x=ARRAYS,
    weights=ARRAYS,
    index=ARRAYS,
    padding=[*NUMBERS, 'FULL', (1, 1), ((1, 1), (1, 1))],
    strides=NUMBERS,
    kernel_dilation=NUMBERS,
    method=TEXTS,
  )

  def right(y):
    if not {'strides', 'kernel_dilation', 'method'}.isdisjoint(args):
      plain = {
        k: v
        for k, v in args.items()
        if k in ('x', 'weights', 'index', 'lifting', 'padding')
      }
      given = [args.get(k, 1) for k in ('strides', 'kernel_dilation')]
      accepted = [n for numbers in given for n in np.ravel(numbers)]
      if all(int(n) == 1 for n in accepted):
        return close(y, aen.shared_conv(**plain))
      return all(int(n) == n >= 1 for n in accepted)
    kernel = np.asarray(args['weights'])[np.asarray(args['index'])]
    merged = np.moveaxis(kernel, 3, 2).reshape(*kernel.shape[:2], 2, -1)
    x = np.asarray(args['x'])
    batch = x.reshape(-1, *x.shape[-3:])
    literal = correlate(batch, merged, _pads(args['padding'], 3), 1)
    return close(np.ravel(y), np.ravel(literal))

  return Call(aen.shared_conv, args, right)


def equivariant_conv(draw):
  args = {
    'symmetries': list(draw.some(['rotation', 'horizontal_flip'])),
    'features': draw.number(1, 2),
    'kernel_size': draw.pick([(3, 3), (1, 1)]),
    'padding': draw.pick(['SAME', 'VALID', 1]),
    'lifting': True,
  }
  args = draw.spoil(
    args,
    symmetries=SYMMETRIES,
    features=NUMBERS,
    kernel_size=SHAPES,
    strides=[*NUMBERS, (2, 2)],
    padding=[*NUMBERS, 'FULL', (1, 1), (1, 2), ((0, 1), (1, 0))],
    kernel_dilation=NUMBERS,
    method=TEXTS,
    x=ARRAYS,
  )
  x = args.pop('x', draw.images(1, 5, 5, 2))

  def apply(**_):
    layer = aen.EquivariantConv(**args)
    y, variables = layer.init_with_output(jax.random.key(0), x)
    return layer, y, variables

  def right(found):
    """Equivariance, which NumPy's own flips and rotations decide."""
    layer, y, variables = found
    group, y = layer.group(), np.asarray(y)
    moves = {
      'rotation': lambda a, axes: np.rot90(a, axes=axes),
      'horizontal_flip': lambda a, axes: np.flip(a, axes[1]),
    }
    for name in as_list(args['symmetries']):
      if name not in moves:  # a function that is the identity
        continue
      moved = np.ascontiguousarray(moves[name](np.asarray(x), (-3, -2)))
      came_from = group.table[group.inverse[group.find(name)]]
      expected = np.take(moves[name](y, (-4, -3)), came_from, -2)
      if not close(layer.apply(variables, moved), expected):
        return False
    return y.shape[-1] == args['features']

  return Call(apply, args | {'x': x}, right)


def group_pool(draw):
  args = {'x': draw.images(2, 3, 4, 5), 'how': draw.pick(['max', 'mean'])}
  args = draw.spoil(args, x=ARRAYS, how=TEXTS)
  return Call(
    aen.group_pool,
    args,
    lambda y: close(y, getattr(np, args['how'])(np.asarray(args['x']), -2)),
  )


def spatial_pool(draw):
  args = {
    'x': draw.images(2, 4, 4, 4, 3),
    'group': aen.group(('rotation',)),
    'window': draw.pick([1, 2, (2, 2), 4]),
    'how': draw.pick(['max', 'mean']),
  }
  args = draw.spoil(
    args,
    x=ARRAYS,
    group=[None, 'rotation', 3, ('rotation',), aen.group],
    window=[*NUMBERS, (2, 3)],
    strides=NUMBERS,
    how=TEXTS,
  )

  def right(y):
    side = int(np.ravel(args['window'])[0])
    step = args.get('strides')
    step = side if step is None else int(step)
    x, how = np.asarray(args['x']), getattr(np, args['how'])
    places = range(0, x.shape[1] - side + 1, step)
    literal = np.stack(
      [
        np.stack(
          [how(x[:, i : i + side, j : j + side], (1, 2)) for j in places], 1
        )
        for i in places
      ],
      1,
    )
    return close(y, literal)

  return Call(aen.spatial_pool, args, right)


@functools.cache
def network(kind):
  if kind == 'dense':
    module = aen.EquivariantDense(('horizontal_flip',), (2, 2), (2, 2))
    shape = (2, 2)
  elif kind == 'conv':
    module = aen.EquivariantConv(('rotation',), 1, (3, 3), lifting=True)
    shape = (4, 4, 1)
  else:
    module = aen.EquivariantMLP(
      ('rotation',),
      num_classes=3,
      in_shape=(4, 4),
      hidden_shapes=((2, 2), (2, 2)),
    )
    shape = (4, 4)
  variables = module.init(jax.random.key(0), np.zeros((1, *shape)))
  # Other biases than zeros.
  return module, jax.tree.map(lambda v: v + 0.1, variables), shape


VARIABLES = [None, 3, {}, {'params': None}, {'params': {}}, 'a', {'kernel': 3}]


def mlp_literally(module, params, x):
  """Applies the dense layers of `to_dense` with NumPy."""
  plain = jax.device_get(aen.to_dense(module, params))
  y = x.reshape(len(x), -1)
  for i, layer in enumerate(plain[name] for name in module.sublayers()):
    y = y @ layer['kernel'] + layer['bias']
    y = np.maximum(y, 0) if i + 1 < len(plain) else y
  return y


def to_dense(draw):
  module, variables, shape = network(draw.pick(['dense', 'mlp']))
  args = {'module': module, 'variables': variables}
  args = draw.spoil(
    args, module=[None, 3, nn.relu, nn.Dense(3)], variables=VARIABLES
  )
  x = draw.images(2, *shape)

  def right(plain):
    if 'kernel' in plain:
      y = x.reshape(2, -1) @ np.asarray(plain['kernel']) + np.asarray(
        plain['bias']
      )
      return close(y, np.asarray(module.apply(variables, x)).reshape(2, -1))
    return close(
      mlp_literally(module, variables, x), module.apply(variables, x)
    )

  return Call(aen.to_dense, args, right)


def expand(draw):
  source, variables, shape = network('mlp')
  args = {
    'source': source,
    'variables': variables,
    'target': source.clone(symmetries=()),
  }
  args = draw.spoil(
    args,
    source=[None, 3, nn.Dense(3), network('dense')[0]],
    variables=VARIABLES,
    target=[
      None,
      3,
      source,
      nn.Dense(3),
      network('conv')[0],
      source.clone(num_classes=4),
    ],
  )
  x = draw.images(2, *shape)

  def right(params):
    same = args['target'].apply({'params': params}, x)
    return close(same, source.apply(variables, x))

  return Call(aen.expand, args, right)


def sharing_variables(draw):
  module, _, _ = network(draw.pick(['dense', 'conv', 'mlp']))
  args = draw.spoil(
    {'module': module}, module=[None, 3, nn.Dense(3), nn.relu, {}]
  )

  def right(found):
    leaves = jax.tree.leaves(found)
    return list(found) == ['sharing'] and all(
      set(np.unique(leaf)) == set(range(int(leaf.max()) + 1)) for leaf in leaves
    )

  return Call(aen.sharing_variables, args, right)


def equivariant_mlp(draw):
  args = {
    'symmetries': draw.symmetries((4, 4), (2, 2)),
    'num_classes': draw.number(1, 3),
    'in_shape': (4, 4),
    'hidden_shapes': ((2, 2),) * draw.number(1, 2),
    'head': draw.pick(['dense', 'invariant']),
    'features': draw.pick([None, 2]),
  }
  args = draw.spoil(
    args,
    symmetries=SYMMETRIES,
    num_classes=NUMBERS,
    in_shape=SHAPES,
    hidden_shapes=SHAPES,
    head=TEXTS,
    features=NUMBERS,
    method=TEXTS,
    max_weights=NUMBERS,
    x=ARRAYS,
  )
  x = args.pop('x', draw.images(2, 4, 4))

  def apply(**_):
    model = aen.EquivariantMLP(**args)
    y, variables = model.init_with_output(jax.random.key(0), x)
    return model, y, variables

  def right(found):
    model, y, variables = found
    count = sum(leaf.size for leaf in jax.tree.leaves(variables))
    if args.get('max_weights') is None and count < model.num_weights():
      return False
    if args['head'] == 'invariant':
      for symmetry in as_list(args['symmetries']):
        p = act(symmetry, (4, 4))
        moved = np.asarray(x).reshape(-1, 16)[:, p].reshape(np.shape(x))
        if not close(model.apply(variables, moved), y):
          return False
    return y.shape[-1] == args['num_classes'] and y.ndim <= np.ndim(x)

  return Call(apply, args | {'x': x}, right)


def group_cnn(draw):
  args = {
    'symmetries': list(draw.some(['rotation', 'horizontal_flip'])),
    'num_classes': draw.number(1, 3),
    'width': draw.pick([0.3, 1.0, 1.5]),
    'head': draw.pick(['dense', 'invariant']),
    'in_shape': draw.pick([(16, 16), (16, 16, 3), (28, 28)]),
    'padding': draw.pick(['VALID', 'SAME']),
  }
  args = draw.spoil(
    args,
    symmetries=SYMMETRIES,
    num_classes=NUMBERS,
    width=NUMBERS,
    head=TEXTS,
    in_shape=[s for s in SHAPES if s is not None],
    padding=TEXTS,
    dropout_rate=NUMBERS,
    method=TEXTS,
  )

  def count(**args):
    model = aen.GroupCNN(**args)
    shape = (1, *model.in_shape)
    params = jax.eval_shape(model.init, jax.random.key(0), np.zeros(shape))
    return model.num_weights(), params

  def right(found):
    counted, params = found
    return counted == sum(leaf.size for leaf in jax.tree.leaves(params))

  return Call(count, args, right)


_SCRATCH = tempfile.TemporaryDirectory(prefix='aen_torture_')
SCRATCH = pathlib.Path(_SCRATCH.name)
PATHS = [
  None,
  3,
  '',
  [],
  b'x',
  '/dev/null/x',
  '/nowhere/\0',
  'x' * 5000,
  object(),
]


def export(draw):
  model, variables, shape = network(draw.pick(['dense', 'mlp']))
  args = {'model': model, 'variables': variables, 'path': SCRATCH / 'a.onnx'}
  args |= draw.pick([{}, {'mean': 0.5, 'std': 2.0}])
  args = draw.spoil(
    args,
    model=[None, 3, nn.Dense(3), nn.relu],
    variables=VARIABLES,
    path=PATHS,
    in_shape=[s for s in SHAPES if s is not None],
    class_names=[3, ['a'], 'abc', [1, 2, 3], ['a', 'b', '\ud800']],
    mean=NUMBERS,
    std=NUMBERS,
  )
  x = draw.images(2, *shape)

  def run(**args):
    aen.export(**args)
    return args['path']

  def right(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    (y,) = session.run(None, {'input': x})
    scaled = (x - float(args.get('mean', 0))) / float(args.get('std', 1))
    return close(y, model.apply(variables, scaled.astype(np.float32)))

  return Call(run, args, right)


@functools.cache
def digits():
  from sklearn import datasets

  found = datasets.load_digits()
  return {
    image.astype(np.uint8).tobytes(): label
    for image, label in zip(found.images, found.target, strict=True)
  }


def load_dataset(draw):
  args = {
    'name': 'digits',
    'num_train': draw.number(1, 99),
    'seed': draw.number(0, 9),
  }
  args = draw.spoil(
    args,
    name=[
      *PATHS,
      'digit',
      'mnist',
      'g_digits/aug99',
      'x',
      '.',
      './x.npz',
      '~',
      '/dev/zero',
    ],
    num_train=NUMBERS,
    num_validation=NUMBERS,
    num_test=NUMBERS,
    seed=NUMBERS,
    size=TEXTS,
    stratified=[0, 1],
    raw_dir=PATHS,
    download=[False],
  )
  args.setdefault('download', False)

  def right(data):
    for split in (data.train, data.validation, data.test):
      levels = np.rint(split.images[:, ::2, ::2] * (16 / 255)).astype(np.uint8)
      for image, label in zip(levels, split.labels, strict=True):
        if digits().get(image.tobytes()) != label:
          return False
    asked = args.get('num_train')
    return asked is None or len(data.train) == asked

  return Call(aen.load_dataset, args, right)


def augmentations(draw):
  name = draw.pick(list(aen.AUGMENTATIONS))
  args = {'key': jax.random.key(draw.number(0, 99)), 'shape': (8, 6)}

  def right(matrix):
    matrix = np.asarray(matrix, float)
    return matrix.shape == (3, 3) and 0.6 < abs(np.linalg.det(matrix)) < 1.5

  return Call(
    lambda key, shape: aen.AUGMENTATIONS[name](key, shape), args, right
  )


def augment(draw):
  mask = draw.rng.integers(0, 2, 6) * draw.number(0, 1)
  args = {
    'key': jax.random.key(draw.number(0, 99)),
    'images': draw.images(2, 6, 6),
    'mask': mask.astype(np.float32),
  }
  args = draw.spoil(
    args,
    key=[None, 3, 'a', np.zeros(2)],
    images=ARRAYS,
    mask=[*ARRAYS, np.array([1, 0, 0, 0, 0, np.nan])],
    fill=[None, 'a', math.nan, 3, [1, 2, 3]],
  )

  def right(got):
    images, fill = np.asarray(args['images'], np.float32), args.get('fill', 0)
    if not np.any(args['mask']):
      return np.array_equal(got, images)
    if not np.isfinite(fill):
      return got.shape == images.shape
    low, high = min(images.min(), fill), max(images.max(), fill)
    return (
      got.shape == images.shape
      and ((got >= low - 1e-4) & (got <= high + 1e-4)).all()
    )

  return Call(aen.augment, args, right)


def augmentation_mask(draw):
  args = {'names': list(draw.some(list(aen.AUGMENTATIONS)))}
  args = draw.spoil(args, names=[*TEXTS, ['x'], 'random_shear', [3], {}, [[]]])

  def right(mask):
    names = as_list(args['names'])
    return mask.tolist() == [name in names for name in aen.AUGMENTATIONS]

  return Call(aen.augmentation_mask, args, right)


def recipe(draw):
  args = {
    'epochs': draw.number(1, 9),
    'learning_rate': 10 ** draw.rng.uniform(-5, 0),
  }
  args = draw.spoil(
    args,
    epochs=NUMBERS,
    batch_size=NUMBERS,
    learning_rate=NUMBERS,
    momentum=NUMBERS,
    optimizer=TEXTS,
    initializer=TEXTS,
    criterion=TEXTS,
    schedule=TEXTS,
  )

  def right(found):
    numbers = found.epochs, found.batch_size
    return (
      all(int(n) == n >= 1 for n in numbers)
      and 0 < found.learning_rate < math.inf
      and 0 <= found.momentum < 1
      and all(getattr(found, k) == v for k, v in args.items())
    )

  return Call(aen.Recipe, args, right)


def search_config(draw):
  args = {'seed': draw.number(0, 99), 'top': draw.number(1, 9)}
  args = draw.spoil(
    args,
    **{
      name: NUMBERS
      for name in (
        'seed',
        'num_seeds',
        'top',
        'retrain_epochs',
        'retrain_seeds',
        'children_per_batch',
      )
    },
    recipe=[None, 3, 'adam', {}],
    strategy=TEXTS,
    options=[3, None, 'a', [1], {'a': 1}],
  )

  def right(found):
    seeds = [*found.seeds(), *found.final_seeds()]
    return (
      len(set(seeds)) == found.num_seeds + found.retrain_seeds
      and found.final_recipe().epochs >= 1
      and all(getattr(found, k) == v for k, v in args.items())
    )

  return Call(aen.SearchConfig, args, right)


CHILD = child_lib.ChildConfig(
  aen.EquivariantMLP(
    (), num_classes=2, in_shape=(2, 2), hidden_shapes=((2, 2),)
  ),
  aen.Recipe(epochs=2, batch_size=4),
)
_child = jax.jit(
  lambda key, data: aen.train_child(key, {}, data, CHILD), static_argnums=()
)


def child_data(draw):
  def examples(count):
    images = draw.images(count, 2, 2)
    return child_lib.Examples(images, draw.rng.integers(0, 2, count))

  train, validation = examples(8), examples(4)
  if draw.spoils:
    train = draw.pick(
      [
        child_lib.Examples(train.images[:3], train.labels[:3]),
        child_lib.Examples(train.images, train.labels[:-1]),
        child_lib.Examples(train.images[:, :1], train.labels),
        child_lib.Examples(train.images, draw.images(8)),
        child_lib.Examples(train.images * np.nan, train.labels),
        child_lib.Examples(draw.images(0, 2, 2), train.labels[:0]),
        child_lib.Examples(draw.images(8), train.labels),
        child_lib.Examples(train.images, train.labels[:, None]),
      ]
    )
  return child_lib.ChildData(train, validation)


def finite_record(record):
  curves = [
    record.train_loss,
    record.validation_loss,
    record.validation_accuracy,
  ]
  accuracy = np.asarray(record.validation_accuracy)
  return (
    all(np.isfinite(curve).all() for curve in curves)
    and (
      (accuracy >= 0) & (accuracy <= 1) & (np.mod(accuracy * 4, 1) == 0)
    ).all()
  )


def train_child(draw):
  args = {'key': jax.random.key(draw.number(0, 99)), 'data': child_data(draw)}
  return Call(_child, args, finite_record)


def train_children(draw):
  count = draw.pick([1, 2])
  args = {
    'keys': jax.random.split(jax.random.key(draw.number(0, 99)), count),
    'collections': {},
    'data': child_data(draw),
    'config': CHILD,
  }
  return Call(
    aen.train_children,
    args,
    lambda record: finite_record(record) and len(record.train_loss) == count,
  )


def results(draw):
  """Puts records into a store, and gets each again, and no other."""

  def record(seed):
    accuracy = draw.rng.integers(0, 5, 3) / 4
    return store_lib.Record(
      key=store_lib.ChildKey('n', 'd', 'r', seed),
      train_loss=tuple(draw.rng.random(3).tolist()),
      validation_accuracy=tuple(accuracy.tolist()),
      validation_loss=tuple(draw.rng.random(3).tolist()),
      symmetries=draw.pick(['', 'rotation', '=x', 'ü + b']),
      num_weights=draw.number(1, 99),
    )

  args = {
    'path': ':memory:',
    'records': [record(i) for i in range(draw.number(0, 4))],
  }
  args = draw.spoil(
    args,
    path=[*PATHS[:2], *PATHS[4:], SCRATCH],
    records=[
      3,
      [None],
      [record(1).replace(validation_loss=(math.nan,) * 3)],
      [record(1).replace(validation_accuracy=(0.5,))],
      [record(1).replace(num_weights='many')],
      [record(2**70)],
      [record(1).replace(symmetries='\ud800')],
    ],
  )

  def run(path, records):
    with aen.Results(path) as store:
      store.put(records)
      return [store.get(r.key) for r in records], len(store)

  return Call(
    run,
    args,
    lambda found: found == (args['records'], len(args['records'])),
  )


def screen(draw):
  args = {
    'inputs': draw.images(30, 4, 4),
    'labels': draw.labels(30),
    'symmetries': draw.symmetries((4, 4)),
    'num_randomizations': 99,
    'num_frequencies': 8,
  }
  args = draw.spoil(
    args,
    inputs=ARRAYS,
    labels=ARRAYS,
    symmetries=SYMMETRIES,
    groups=ARRAYS,
    grid=[s for s in SHAPES if s is not None],
    level=NUMBERS,
    bound=NUMBERS,
    num_randomizations=NUMBERS,
    num_frequencies=[n for n in NUMBERS if not isinstance(n, int) or n < 300],
    seed=NUMBERS,
  )

  def right(found):
    ps = [f.p_value for f in found.findings.values()]
    steps = np.array(ps) * (found.num_randomizations + 1)
    adjusted = [f.adjusted_p_value for f in found.findings.values()]
    order = np.argsort(ps, kind='stable')
    holm, highest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
      highest = max(highest, min(1, (len(ps) - rank) * ps[i]))
      holm[i] = highest
    return np.allclose(steps, np.round(steps)) and np.allclose(adjusted, holm)

  return Call(aen.screen, args, right)


def landscape(draw):
  networks, seeds, epochs = 2, draw.number(1, 3), draw.number(1, 3)
  args = {
    'name': 'mine',
    'symmetries': ('rotation',),
    'network_of': [0, 1],
    'weights': [3, 2],
    'seeds': list(range(seeds)),
    'validation': draw.rng.random((networks, seeds, epochs)),
    'test': draw.rng.random((networks, seeds, epochs)),
    'seconds': np.ones((networks, seeds)),
  }
  pools = {name: ARRAYS for name in list(args)[2:]}
  args = draw.spoil(args, symmetries=[3, None, ('a', 'b'), 'r'], **pools)

  def right(found):
    best = np.argmax(np.asarray(args['validation'], np.float32), -1)
    test = np.asarray(args['test'], np.float32)
    literal = [
      np.mean([test[r, s, best[r, s]] for s in range(test.shape[1])])
      for r in range(len(test))
    ]
    return close(found.values('test'), literal)

  return Call(aen.Landscape, args, right)


def images_and_labels(draw, count=60):
  labels = np.arange(count) % 2
  images = draw.images(count, 4, 4) + labels[:, None, None]
  return images, labels


TINY = {
  'recipe': aen.Recipe(epochs=1, batch_size=16, criterion='likelihood'),
  'top': 1,
  'retrain_seeds': 1,
  'retrain_epochs': 1,
}


@functools.cache
def found_result():
  images, labels = images_and_labels(Draw(0))
  run_dir = SCRATCH / 'run'
  result = aen.discover(
    images, labels, symmetries=('horizontal_flip',), run_dir=run_dir, **TINY
  )
  return run_dir, result


def search_result(draw):
  run_dir, result = found_result()
  args = {'directory': run_dir, 'symmetries': ()}
  if draw.rng.random() < 0.7:
    draw.spoils = True
  args = draw.spoil(args, directory=[*PATHS, SCRATCH], symmetries=SYMMETRIES)
  return Call(
    aen.SearchResult.load,
    args,
    lambda found: (
      found.ranking == result.ranking and found.verdict == result.verdict
    ),
  )


TRAINED = []


def discover(draw):
  """Mostly refused, because training takes a second."""
  found_result()  # compiles
  draw.spoils = draw.rng.random() < 0.9
  images, labels = images_and_labels(draw)
  test_images, test_labels = images_and_labels(draw, 20)
  args = {
    'images': images,
    'labels': labels,
    'test_images': test_images,
    'test_labels': test_labels,
    'symmetries': draw.pick([(), ('horizontal_flip',), ('rotation',)]),
    **TINY,
  }
  refused = [x for x in ARRAYS if x is not None]
  args = draw.spoil(
    args,
    images=[*ARRAYS, images[:9], np.ones_like(images), images.astype(int)],
    labels=[
      *ARRAYS,
      labels * 0,
      labels[:-1],
      labels - 1,
      labels + 5,
      labels * 0.5,
    ],
    test_images=[*refused, test_images[:, :2], test_images.astype(np.uint8)],
    test_labels=[*refused, test_labels[:-1], test_labels + 9],
    symmetries=[s for s in SYMMETRIES if callable(s)] + ['rotatoin', 3, [3]],
    head=TEXTS,
    strategy=TEXTS,
    recipe=[3, 'adam', {}],
    class_names=[3, 'ab', ['a'], ['a', 'a'], ['a', '\ud800']],
    top=[n for n in NUMBERS if n is not None],
    seed=[n for n in NUMBERS if not isinstance(n, int)],
    nonsense=NUMBERS,
  )

  def right(result):
    TRAINED.append(1)
    given = args['test_images'] is not None
    if not given:
      return 0 <= result.best.accuracy <= 1
    answers = result.best.predict(np.asarray(args['test_images']))
    accuracy = np.mean(answers == np.asarray(args['test_labels']))
    return np.isclose(result.best.accuracy, accuracy)

  return Call(aen.discover, args, right)


CALLS = {
  '__version__': version,
  'Symmetry': symmetry,
  'SYMMETRIES': named_symmetries,
  'Lattice': lattice_methods,
  'Sharing': sharing,
  'AUGMENTATIONS': augmentations,
  'Recipe': recipe,
  'SearchConfig': search_config,
  'Results': results,
  'Landscape': landscape,
  'SearchResult': search_result,
  'EquivariantDense': equivariant_dense,
  'EquivariantConv': equivariant_conv,
  'EquivariantMLP': equivariant_mlp,
  'GroupCNN': group_cnn,
  **{
    fn.__name__: fn
    for fn in (
      *(group, permutation, pair, orbits, join, dense_sharing, conv_sharing),
      *(distinct_networks, lattice, alg1, alg2, assert_equivariant),
      *(shared_dense, shared_conv, group_pool, spatial_pool, expand),
      *(sharing_variables, to_dense, export, load_dataset, augment),
      *(augmentation_mask, train_child, train_children, screen, discover),
    )
  },
}
