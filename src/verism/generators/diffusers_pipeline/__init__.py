"""Images from any text-to-image pipeline that ``diffusers`` loads; see ``generator``."""

from verism.generators.diffusers_pipeline._parts import SCHEDULERS
from verism.generators.diffusers_pipeline.generator import DiffusersGenerator, Loading, Sampling

__all__ = ["SCHEDULERS", "DiffusersGenerator", "Loading", "Sampling"]
