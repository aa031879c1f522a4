"""What the launchers of searches share: flags, config, search, report."""

from collections.abc import Callable
from typing import Any

from aen import report
from aen.search import search as search_lib
from aen.search import space as space_lib
from aen.train import tensorboard
from experiments import flags
from experiments import launch


class Search:
  """A search that the flags describe."""

  def __init__(
    self,
    data: flags.Data,
    networks: Callable[[], dict[str, Any]],
    epochs: int | None = None,
    **defaults: Any,
  ) -> None:
    """Defines the flags of recipe, search and workers, with these defaults."""
    self._data, self._networks = data, networks
    self._recipe = flags.recipe(epochs=epochs)
    self._config = flags.search(**defaults)
    self._workers = flags.workers()
    text = "Write every child's curves to <run_dir>/tensorboard once trained."
    self._flags = launch.define(tensorboard=(False, text))

  def run(
    self,
    experiment: str,
    make_space: Callable[..., space_lib.Space],
    search_images: int = search_lib.SEARCH_IMAGES,
  ) -> None:
    """Searches with at most `search_images`, retrains with all, and reports."""
    self._config(self._recipe(search_images))  # wrong flags fail at once
    workers = self._workers()
    run_dir, on_trained = self._data.run_dir(experiment), None
    if self._flags.tensorboard:
      on_trained = tensorboard.callback(run_dir / 'tensorboard')
    data = self._data.load()
    space = make_space(data.image_shape, data.num_classes, **self._networks())
    print(f'{data!r}\n{len(space)} networks to choose among')
    config = self._config(self._recipe(min(len(data.train), search_images)))
    with launch.resumable():
      result = search_lib.search(
        data,
        space,
        config,
        run_dir,
        search_images,
        on_trained,
        screened=True,
        executor=workers,
      )
      page = report.write(result, data, run_dir)
    print(f'{result.verdict}\nreport: {page}')
