"""What a search found: one page, and pictures that stand alone.

Every picture is a `matplotlib.figure.Figure` of its own, without global state,
so that it can be drawn in threads and shown in notebooks.
"""

from aen.report.charts import frequencies
from aen.report.charts import search_curve
from aen.report.charts import top_networks
from aen.report.charts import weights_against_accuracy
from aen.report.diagram import lattice_diagram
from aen.report.patterns import kernel_images
from aen.report.patterns import orbit_grid
from aen.report.patterns import sharing_graph
from aen.report.patterns import sharing_matrix
from aen.report.samples import sample_images
from aen.report.writing import write

__all__ = (
  'frequencies',
  'kernel_images',
  'lattice_diagram',
  'orbit_grid',
  'sample_images',
  'search_curve',
  'sharing_graph',
  'sharing_matrix',
  'top_networks',
  'weights_against_accuracy',
  'write',
)
