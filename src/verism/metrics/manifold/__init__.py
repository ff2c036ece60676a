"""Precision, recall, density and coverage: how two sets of image features overlap as k-NN manifolds.

Exact whatever the size of the sets, in float32 speed: see ``_tiles``. Neighbours, numbers, groups, intervals.
"""

from verism.metrics.manifold._approximate import ApproximatePRDC, approximate_prdc
from verism.metrics.manifold._expected import expected_coverage
from verism.metrics.manifold._groups import (
    GroupMemberships,
    GroupPRDC,
    grouped_memberships,
    grouped_prdc,
)
from verism.metrics.manifold._intervals import HalfSamples, grouped_half_samples, half_samples, shared_covariance
from verism.metrics.manifold._neighbours import Neighbours, knn_radii, nearest_neighbours
from verism.metrics.manifold._prdc import (
    PRDC,
    Memberships,
    PrecisionCoverage,
    memberships,
    prdc,
    precision_coverage,
)
from verism.metrics.manifold._tiles import products_by

__all__ = [
    "PRDC",
    "ApproximatePRDC",
    "GroupMemberships",
    "GroupPRDC",
    "HalfSamples",
    "Memberships",
    "Neighbours",
    "PrecisionCoverage",
    "approximate_prdc",
    "expected_coverage",
    "grouped_half_samples",
    "grouped_memberships",
    "grouped_prdc",
    "half_samples",
    "knn_radii",
    "memberships",
    "nearest_neighbours",
    "prdc",
    "precision_coverage",
    "products_by",
    "shared_covariance",
]
