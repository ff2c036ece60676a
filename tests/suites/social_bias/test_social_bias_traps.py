"""Ways in which numbers of the published protocols go wrong that no other test of the suites is about."""

from importlib import resources
from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.metrics.imbalance import mad
from verism.pipeline.local import make_requests
from verism.suites.catalogue import make_suite

# Of TRUST, FLAME, DECA and the Basel face model: none may be handed on.
NOT_OURS = ("e_albedo", "e_light", "flame", "deca", "trust_models", "albedo_model", "generic_model", "balanced_alb",
            "skin_mask", "cheek", "head_template", "basel")  # fmt: skip


def test_nothing_that_may_not_be_handed_on_is_in_the_package():
    """Checkpoints, bases of faces and the mask of cheeks are the user's own files."""
    files = [
        f for f in Path(str(resources.files("verism"))).rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")
    ]
    assert len(files) > 20
    assert not [f for f in files if any(name in f.name.lower() for name in NOT_OURS)]
    assert not [f for f in files if f.suffix in (".tar", ".pt", ".pth", ".pkl", ".obj", ".mat", ".h5")]


@pytest.mark.parametrize("name", ["social_bias", "social_bias_v1"])
def test_nine_images_have_nine_seeds_that_a_run_can_repeat(name):
    """Nine images of one seed would be one image, and the most biased of models."""
    prompts = make_suite(name, limit=6).prompts()
    one, again, other = (make_requests(prompts, seed) for seed in (5, 5, 6))
    seeds = {}
    for request in one:
        seeds.setdefault(request.prompt.prompt_id, set()).add(request.seed)
    assert all(len(members) == 9 for members in seeds.values())
    assert [r.seed for r in one] == [r.seed for r in again]
    assert not {r.seed for r in one} & {r.seed for r in other}


def test_the_divisor_is_never_taken_for_granted():
    """One gender in all images: 0.5 by the formula and the second tables, 1 in the tables of the first paper."""
    assert (mad([9, 0], divisor="K"), mad([9, 0], divisor="K-1")) == (0.5, 1.0)
    first = make_suite("social_bias_v1", limit=3)
    second = make_suite("social_bias", limit=3)
    with pytest.raises(UsageError, match="rule"):
        second.with_rules(divisor="K-1")
    assert "divisor" not in first.all_rules()  # both are told there, by name
