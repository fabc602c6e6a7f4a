"""Sparse Jacobians: find the pattern, colour it, compute a few products.

:mod:`.detection` runs f and passes :mod:`.index_sets` through every operation, by the
:mod:`.rules`. :mod:`.coloring` colours what it finds (:mod:`.bicoloring` for both modes
at once, :mod:`.star` for Hessians), and :mod:`.plan` holds it and computes the Jacobian
from one product for each colour.
"""
