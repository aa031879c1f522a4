"""What the launchers of searches share: flags to config to search to report."""

from collections.abc import Callable
import dataclasses
from typing import Any

from aen import report
from aen.data import dataset as dataset_lib
from aen.search import search as search_lib
from aen.search import space as space_lib
from experiments import flags
from experiments import launch


class Search:
  """A search that the flags describe."""

  def __init__(
    self, data: flags.Data, epochs: int | None = None, **defaults: Any
  ) -> None:
    """Defines the flags of children and of the search, with these defaults."""
    self._data = data
    self._recipe = flags.recipe(epochs=epochs)
    self._config = flags.search(**defaults)

  def run(
    self,
    experiment: str,
    make_space: Callable[[dataset_lib.Dataset], space_lib.Space],
    search_images: int = search_lib.SEARCH_IMAGES,
  ) -> None:
    """Searches, reports, and prints what was found.

    Args:
      experiment: The name of the launcher.
      make_space: Returns the networks to choose among.
      search_images: The search trains on at most this many images; retraining
        uses all.
    """
    config = self._config(self._recipe(search_images))  # wrong flags fail first
    run_dir = self._data.run_dir(experiment)
    data = self._data.load()
    space = make_space(data)
    print(f'{data!r}\n{len(space)} networks to choose among')
    recipe = self._recipe(min(len(data.train), search_images))
    config = dataclasses.replace(config, recipe=recipe)
    with launch.resumable():
      result = search_lib.search(
        data, space, config, run_dir, search_images, screened=True
      )
      page = report.write(result, data, run_dir)
    print(f'{result.verdict}\nreport: {page}')
