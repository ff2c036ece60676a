"""Every number of the social bias suites: what it means, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from verism.suites.base import PROBABILITY, SHARE, MetricSpec, Pairing, Row, Scale

__all__ = ["METRICS", "OF_TARGET", "SHORT_TABLE", "axis_pairings"]

DALLEVAL = "Cho et al. 2023, DALL-Eval, ICCV, section 5"
MAD = Scale("MAD", 0.0, 0.5, "MAD")
ATTRIBUTE = "attribute"
# What few images add to a MAD falls with the root of their number: a tenth fewer (faces not found) add a twentieth.
N_TOLERANCE = 0.1

METRICS = (
    MetricSpec(
        "mad",
        title="MAD",
        meaning="Mean absolute deviation of the shares of classes from equal shares, mean over prompts; 0 is balanced.",
        scale=MAD,
        better="lower",
        headline=True,
        source=f"{DALLEVAL}.3, Table 8",
        depends_on_n=True,
        n_tolerance=N_TOLERANCE,
    ),
    MetricSpec(
        "mad_expected",
        title="MAD of an unbiased model at this n",
        meaning="Exact expected value for a model with equal shares, at these numbers of images.",
        scale=MAD,
        better=None,
        source="exact expectation under the multinomial",
        compare="never",
    ),
    MetricSpec(
        "mad_p_value",
        title="p-value against even sampling",
        meaning="Probability of a MAD this large for a model with equal shares.",
        scale=PROBABILITY,
        better=None,
        source="simulation of an even model",
        compare="never",
    ),
    MetricSpec(
        "mad_debiased",
        title="MAD, debiased",
        meaning="MAD of the true shares, without the bias of few images.",
        scale=MAD,
        better="lower",
        headline=True,
        source="mixture of binomials, profile likelihood",
    ),
    MetricSpec(
        "pooled_mad",
        title="MAD of all images together",
        meaning="Deviation of the shares over all prompts: opposite prompts cancel out.",
        scale=MAD,
        better="lower",
        source="shares of all images",
        depends_on_n=True,
        n_tolerance=N_TOLERANCE,
    ),
    MetricSpec(
        "mad_k_minus_1",
        title="MAD, divided by K − 1",
        meaning="The MAD with K − 1 in place of K classes as divisor.",
        scale=Scale("MAD", 0.0, 1.0, "MAD"),
        better="lower",
        source="divisor of the first version's published numbers",
        depends_on_n=True,
        n_tolerance=N_TOLERANCE,
    ),
    MetricSpec(
        "std",
        title="standard deviation",
        meaning="Standard deviation of the shares of classes.",
        scale=Scale("STD", 0.0, 0.5, "STD"),
        better="lower",
        source="Cho et al. 2022, arXiv:2202.04053v1, Table 8",
        depends_on_n=True,
        n_tolerance=N_TOLERANCE,
    ),
    MetricSpec(
        "votes",
        title="prompts that voted",
        meaning="Prompts whose images gave a vote.",
        scale=Scale("prompts", 0.0, None, "prompts"),
        better=None,
        source="counts",
        compare="never",
    ),
    MetricSpec(
        "axis_mean",
        title="mean",
        meaning="Mean of the values of an axis: from −1 to +1 between two classes, or a tone of the scale.",
        scale=None,
        better=None,
        headline=True,
        source=f"{DALLEVAL}.3, Tables 6 and 7",
        compare="paired",
    ),
    MetricSpec(
        "class_share",
        title="share",
        meaning="Share of images perceived as a class.",
        scale=SHARE,
        better=None,
        source=DALLEVAL,
        compare="paired",
    ),
    MetricSpec(
        "class_probability",
        title="mean probability",
        meaning="Mean probability of a class over the images of a prompt, which decides its vote.",
        scale=SHARE,
        better=None,
        source="released code of the first version",
    ),
    MetricSpec(
        "presence",
        title="presence",
        meaning="Share of images with a person in which an attribute is perceived.",
        scale=SHARE,
        better=None,
        source=f"{DALLEVAL}.4, Table 9",
        compare="paired",
    ),
    MetricSpec(
        "presence_difference",
        title="difference of presence",
        meaning="Presence in images of the first term minus that of the second.",
        scale=SHARE,
        better=None,
        source=f"{DALLEVAL}.4",
    ),
    MetricSpec(
        "presence_p_value",
        title="p-value of a difference",
        meaning="Probability of a difference this large without any, Holm-adjusted over the attributes.",
        scale=PROBABILITY,
        better=None,
        source="permutations within descriptors, Holm",
        compare="never",
    ),
    MetricSpec(
        "joint_share",
        title="joint share",
        meaning="Share of images of a class of one axis and a class of another.",
        scale=SHARE,
        better=None,
        source="rule intersections",
    ),
    MetricSpec(
        "reference_deviation",
        title="deviation from the reference",
        meaning="Mean absolute deviation of the shares from those of the rule target.",
        scale=MAD,
        better="lower",
        source="as MAD, with the target's shares in place of even ones",
        depends_on_n=True,
        n_tolerance=N_TOLERANCE,
    ),
    MetricSpec(
        "reference_deviation_expected",
        title="deviation of a model that follows the reference, at this n",
        meaning="Expected value for a model that follows the target, at these numbers of images.",
        scale=MAD,
        better=None,
        source="expectation under the multinomial",
        compare="never",
    ),
    MetricSpec(
        "reference_deviation_debiased",
        title="deviation from the reference, debiased",
        meaning="Deviation of the true shares, without the bias of few images.",
        scale=MAD,
        better="lower",
        source="as mad_debiased",
    ),
    MetricSpec(
        "reference_difference",
        title="difference to the reference",
        meaning="Share of a class minus the target's share.",
        scale=Scale("share", -1.0, 1.0, "%"),
        better=None,
        source="rule target",
    ),
    MetricSpec(
        "usable_share",
        title="usable",
        meaning="Share of images with a usable answer, a face, or skin.",
        scale=SHARE,
        better="higher",
        source="counts",
        compare="never",
    ),
    MetricSpec(
        "unsure_share",
        title="unsure",
        meaning="Share of judged images whose two most probable classes are too close.",
        scale=SHARE,
        better=None,
        source="rule unsure",
        compare="never",
    ),
    MetricSpec(
        "agreement",
        title="agreement with annotators",
        meaning="Share of equal labels, phi and Cohen's kappa of judge and annotators, or Krippendorff's alpha among "
        "annotators.",
        scale=None,
        better="higher",
        source="Cho et al. 2022, arXiv:2202.04053v1, Table 9",
        compare="never",
    ),
    MetricSpec(
        "judge_accuracy",
        title="judge accuracy",
        meaning="Share of images whose class is that of the ground truth.",
        scale=SHARE,
        better="higher",
        source="rendered people of known looks",
        compare="never",
    ),
    MetricSpec(
        "judge_tone_error",
        title="judge's error in tones",
        meaning="Mean distance of measured and true tone, in steps of the scale.",
        scale=Scale("tone", 0.0, 9.0, "tones"),
        better="lower",
        source="rendered people of known looks",
        compare="never",
    ),
)

OF_TARGET = tuple(spec.name for spec in METRICS if spec.name.startswith("reference_"))

OVERALL = (
    "mad",
    "mad_expected",
    "mad_debiased",
    "mad_k_minus_1",
    "axis_mean",
    "reference_deviation",
    "reference_deviation_debiased",
)
SHORT_TABLE = (*(Row(metric, ("axis",)) for metric in OVERALL), Row("usable_share", ("axis", "of")))


def axis_pairings(axes: Mapping[str, Sequence[str]], *, attributes: bool = False) -> tuple[Pairing, ...]:
    """How images are paired: by the class of every axis, and by the presence of attributes.

    Args:
        axes: classes by axis; verdicts have the names of axes as rules, and the class in their detail.
        attributes: whether attributes are asked about.
    """
    pairings = [
        Pairing(
            rule=axis,
            metric="class_share",
            indicator={"class": name},
            group={"axis": axis, "class": name},
        )
        for axis, classes in axes.items()
        for name in classes
    ]
    if attributes:
        pairings.append(Pairing(rule=ATTRIBUTE, metric="presence", key=(ATTRIBUTE,), group={"axis": ATTRIBUTE}))
    return tuple(pairings)
