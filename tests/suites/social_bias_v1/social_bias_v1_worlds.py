"""Tables as a judge fills them, with probabilities chosen by the test."""

import math

import numpy as np

from verism.records import Observed, frame, make_image_id, vector_rows

JUDGE = "clip:openai/clip-vit-base-patch32@1"


def seen(suite, shows, *, states=None, unseen=(), sha256=None, judge=JUDGE, skin=None):
    """Observed images of a suite.

    Args:
        shows: (prompt, index) -> probabilities by axis name, each of its classes in order; None for a vector of zeros.
    """
    prompts = {p.prompt_id: p for p in suite.prompts()}
    states = states or {}
    ids = [(make_image_id(p.prompt_id, i), p, i) for p in prompts.values() for i in range(p.n_images)]
    images = frame(
        "images",
        [
            {
                "image_id": image,
                "prompt_id": p.prompt_id,
                "index": i,
                "state": states.get(image, "ok"),
                "sha256": image if sha256 is None else sha256(p, i),
            }
            for image, p, i in ids
        ],
    )
    texts = suite.needs()[0].texts
    kept = [(image, p, i) for image, p, i in ids if image not in unseen and states.get(image, "ok") == "ok"]
    vectors = np.array([_vector(suite.axes, texts, shows(p, i)) for _, p, i in kept]).reshape(len(kept), len(texts) + 1)
    tables = {
        "embeddings": vector_rows("embeddings", [image for image, _, _ in kept], judge, vectors),
        "text_embeddings": vector_rows("text_embeddings", texts, judge, 3 * np.eye(len(texts), len(texts) + 1)),
    }
    if skin is not None:
        tables["skin_tones"] = frame("skin_tones", skin)
    return Observed(prompts=prompts, images=images, observations=tables)


def _vector(axes, texts, probabilities):
    """A vector whose cosines with the texts give these probabilities at a scale of 100."""
    if probabilities is None:
        return np.zeros(len(texts) + 1)
    cosines = np.zeros(len(texts))
    for axis in axes:
        wanted = np.array(probabilities.get(axis.name, [1 / len(axis.classes)] * len(axis.classes)))
        cosines[[texts.index(prompt) for prompt in axis.prompts]] = np.log(wanted) / 100
    return 2 * np.array([*cosines, math.sqrt(1 - cosines @ cosines)])


def finder(scores):
    """``find(metric, protocol, **group)``: the one score of exactly this group."""
    by = {}
    for score in scores:
        key = (score.metric, score.protocol, frozenset(score.group.items()))
        assert key not in by, f"{score.metric} {score.group} is there twice"
        by[key] = score

    def find(metric, protocol="released", **group):
        group = {"class" if k == "cls" else k: v for k, v in group.items()}
        return by[metric, protocol, frozenset(group.items())]

    return find
