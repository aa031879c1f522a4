"""Packaging: floors and extras here, exact versions in requirements.txt."""

import pathlib
import re

import setuptools

_ROOT = pathlib.Path(__file__).parent
_VERSION = re.search(
  r"^__version__ = '(.+)'$", (_ROOT / 'aen/__init__.py').read_text(), re.M
).group(1)

_DATA = [
  'array_record>=0.5',
  'importlib_resources>=6',
  'pillow>=10',
  'scikit-learn>=1.5',
  'tensorflow-datasets>=4.9.7',
  'tqdm>=4.66',
]
_SEARCH = [
  'absl-py>=2.3',
  'matplotlib>=3.9',
  'optax>=0.2.5',
  'orbax-checkpoint>=0.11,<1',
  'scikit-learn>=1.5',
  'tqdm>=4.66',
  'typing_extensions>=4.4',
]
_ONNX = ['onnx>=1.17']
_TENSORBOARD = ['tensorboardX>=2.6.2.2']
_RAY = ['ray>=2.50']
_DASK = ['distributed>=2024.8']
_SLURM = ['submitit>=1.5.2']
_NOTEBOOKS = ['ipykernel>=6.29', 'nbclient>=0.10', 'nbformat>=5.10']
_DEV = [
  'build>=1.2',
  'flatbuffers>=24',
  'hypothesis>=6.100',
  'mypy>=1.18',
  'onnxruntime>=1.19',
  'playwright>=1.50',
  'pytest>=8',
  'pytest-xdist>=3.6',
  'ruff>=0.14',
  'setuptools>=70.1',
  'tensorboard>=2.18',
]

setuptools.setup(
  name='aen',
  version=_VERSION,
  description='Finds symmetries in data; builds networks that respect them.',
  long_description=(_ROOT / 'README.md').read_text(),
  long_description_content_type='text/markdown',
  license='MIT',
  classifiers=[
    'Development Status :: 4 - Beta',
    'Intended Audience :: Science/Research',
    'License :: OSI Approved :: MIT License',
    'Programming Language :: Python :: 3',
    'Programming Language :: Python :: 3.11',
    'Programming Language :: Python :: 3.12',
    'Programming Language :: Python :: 3.13',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
  ],
  packages=setuptools.find_packages(include=['aen', 'aen.*']),
  package_data={
    'aen': ['*/*.css', '*/*.html', '*/*.js', '*/*.toml'],
  },
  entry_points={'console_scripts': ['aen = aen.__main__:main']},
  python_requires='>=3.11',
  install_requires=[
    'chex>=0.1.91',
    'flax>=0.12',
    'jax>=0.7.2',
    'numpy>=2',
    'scipy>=1.14',
  ],
  extras_require={
    'data': _DATA,
    'search': _SEARCH,
    'onnx': _ONNX,
    'tensorboard': _TENSORBOARD,
    'ray': [*_SEARCH, *_RAY],
    'dask': [*_SEARCH, *_DASK],
    'slurm': [*_SEARCH, *_SLURM],
    'notebooks': _NOTEBOOKS,
    'dev': [
      *_DATA,
      *_SEARCH,
      *_ONNX,
      *_TENSORBOARD,
      *_RAY,
      *_DASK,
      *_SLURM,
      *_NOTEBOOKS,
      *_DEV,
    ],
  },
)
