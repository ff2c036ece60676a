"""CogView2 for ``verism run``; see docs/recipes/cogview2.md.

Runs in the environment of CogView2, on a GPU:  python cogview2_coglm.py --repository CogView2 --weights sat_models
"""

import argparse
import contextlib
import functools
import os
import sys

import recipe_kit as kit

# What a style stands for is read from the repository (get_recipe); docs/recipes/cogview2.md lists it.
SETTINGS = {
    "released": {"style": "mainbody"},
    "paper": {"style": "none"},
}
TOKENS_COARSE, TOKENS_FINE, MOST_TEXT, SIZE = 400, 3600, 110, 480


def load(args, settings):
    repository, weights = os.path.abspath(args.repository), os.path.abspath(os.path.expanduser(args.weights))
    sources = ("cogview2_text2image.py", "coglm_strategy.py", "sr_pipeline", "cluster_label.npy")
    kit.need_files(
        {name: os.path.join(repository, name) for name in sources},
        "Clone THUDM/CogView2 and name the folder with --repository.",
    )
    models = ["coglm"] if args.only_first_stage else ["coglm", "cogview2-dsr", "cogview2-itersr"]
    if not args.download:
        kit.need_files(
            {name: os.path.join(weights, name) for name in models},
            "Name their folder with --weights, or let the package download them with --download (tens of gigabytes).",
        )
    os.environ["SAT_HOME"] = weights  # read by the package when it is imported or asked for a model
    sys.path.insert(0, repository)
    with inside(repository):  # files of the repository are opened by their bare names
        import torch
        from coglm_strategy import CoglmStrategy
        from cogview2_text2image import InferenceModel, get_masks_and_position_ids_coglm, get_recipe, tokenizer
        from SwissArmyTransformer import get_args
        from SwissArmyTransformer.generation.autoregressive_sampling import filling_sequence

        options = ["--mode", "inference", "--fp16", "--batch-size", "1", "--max-inference-batch-size", "1"]
        value = vars(get_args(options))
        value.update(img_size=160, only_first_stage=args.only_first_stage, inverse_prompt=False, **settings)
        value.update(get_recipe(settings["style"]))
        model, value = InferenceModel.from_pretrained(argparse.Namespace(**value), "coglm")
        strategy = CoglmStrategy(
            [slice(tokenizer.num_image_tokens, None)],
            temperature=value.temp_all_gen,
            top_k=value.topk_gen,
            top_k_cluster=value.temp_cluster_gen,
        )
        enlarge = None
        if not args.only_first_stage:
            from sr_pipeline import SRGroup

            enlarge = SRGroup(value).sr_base

    def paint_one(request):
        text = tokenizer.encode(value.query_template.format(request["prompt"]))
        if len(text) > MOST_TEXT:
            raise ValueError(f"the prompt has {len(text)} tokens; the model takes {MOST_TEXT}")
        length = len(text) - 1  # the last one says that the image begins
        sequence = torch.tensor(text + [-1] * TOKENS_COARSE, device=value.device)
        weight = torch.zeros(len(sequence), len(sequence), device=value.device,
                             dtype=torch.half if value.fp16 else torch.float32)  # fmt: skip
        weight[:, :length] = value.attn_plus
        strategy.start_pos = length + 1
        kit.seed_everything(request["seed"])
        with torch.no_grad():
            tokens = filling_sequence(
                model,
                sequence.clone(),
                batch_size=1,
                strategy=strategy,
                log_attention_weights=weight,
                get_masks_and_position_ids=functools.partial(get_masks_and_position_ids_coglm, context_length=length),
            )[0][:, -TOKENS_COARSE:]
            tokens = tokens[0] if enlarge is None else enlarge(tokens, sequence[:length])[0][-TOKENS_FINE:]
            image = torch.nn.functional.interpolate(tokenizer.decode(image_ids=tokens), size=(SIZE, SIZE))
        return kit.to_image(image[0], rounded=True)

    def paint(requests):
        with inside(repository):
            return [paint_one(request) for request in requests]

    return paint


@contextlib.contextmanager
def inside(folder):
    """The working directory, for a while."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    parser = kit.arguments("CogView2 images for verism, one at a time", SETTINGS, default="paper")
    parser.add_argument("--repository", default="CogView2", help="folder of the cloned repository")
    parser.add_argument("--weights", default=os.environ.get("SAT_HOME", "~/.sat_models"), help="folder of the models")
    parser.add_argument("--download", action="store_true", help="download models that are not there")
    parser.add_argument("--only-first-stage", action="store_true", help="20x20 tokens, no super-resolution")
    kit.main(parser, SETTINGS, load, "cogview2")
