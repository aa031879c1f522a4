"""The official files of published data sets, with sizes and checksums.

TFDS registers the same ones.
"""

from aen.data.files import File


def _four(
  url: str, *rows: tuple[int, str] | tuple[int, str, str]
) -> tuple[File, ...]:
  """Returns the four files of a set in MNIST's form, given their checksums."""
  names = (
    'train-images-idx3-ubyte.gz',
    'train-labels-idx1-ubyte.gz',
    't10k-images-idx3-ubyte.gz',
    't10k-labels-idx1-ubyte.gz',
  )
  return tuple(
    File(name, url + name, *row) for name, row in zip(names, rows, strict=True)
  )


MNIST = _four(
  'https://storage.googleapis.com/cvdf-datasets/mnist/',
  (
    9912422,
    '440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609',
    'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db',
  ),
  (
    28881,
    '3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c',
    '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5',
  ),
  (
    1648877,
    '8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6',
    '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7',
  ),
  (
    4542,
    'f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6',
    'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2',
  ),
)
FASHION = _four(
  'http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/',
  (
    26421880,
    '3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84',
    'c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888',
  ),
  (
    29515,
    'a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845',
    'bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9',
  ),
  (
    4422102,
    '346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073',
    '5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b',
  ),
  (
    5148,
    '67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5',
    '0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34',
  ),
)
KMNIST = _four(
  'http://codh.rois.ac.jp/kmnist/dataset/kmnist/',
  (
    18165135,
    '51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4',
  ),
  (29497, 'e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17'),
  (3041136, 'edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5'),
  (5120, '20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c'),
)
EMNIST = (
  File(
    'gzip.zip',
    'https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip',
    561753746,
    'fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e',
  ),
)
CIFAR10 = (
  File(
    'cifar-10-binary.tar.gz',
    'https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz',
    170052171,
    'c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd',
  ),
)
SVHN = (
  File(
    'train_32x32.mat',
    'http://ufldl.stanford.edu/housenumbers/train_32x32.mat',
    182040794,
    '435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8',
  ),
  File(
    'test_32x32.mat',
    'http://ufldl.stanford.edu/housenumbers/test_32x32.mat',
    64275384,
    'cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b',
  ),
)
