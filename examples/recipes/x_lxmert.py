"""X-LXMERT (image generation) for ``verism run``; see docs/recipes/x-lxmert.md.

Runs in the environment of X-LXMERT, on a GPU:  python x_lxmert.py --repository x-lxmert --centroids centroids.npy
"""

import inspect
import os
import sys

import recipe_kit as kit

SETTINGS = {"released": {"steps": 4, "max_text_length": 20}}
GRID, FEATURES, SIZE = 8, 2048, 256


def load(args, settings):
    sources = {
        "the model": os.path.join(args.repository, "x-lxmert", "src", "tasks", "imggen_model.py"),
        "the image generator": os.path.join(args.repository, "image_generator", "src", "layers.py"),
    }
    kit.need_files(sources, "Clone allenai/x-lxmert and name the folder with --repository.")
    files = {
        "X-LXMERT": args.weights or os.path.join(args.repository, "x-lxmert/snap/pretrained/x_lxmert/Epoch20_LXRT.pth"),
        "generator": args.generator or os.path.join(args.repository, "image_generator/snap/pretrained/G_60.pth"),
    }
    if args.centroids:
        files["centroids"] = args.centroids
    kit.need_files(files, "docs/recipes/x-lxmert.md says where they come from; --help says how to name them.")
    for folder in (os.path.join("x-lxmert", "src"), os.path.join("image_generator", "src")):
        sys.path.insert(0, os.path.abspath(os.path.join(args.repository, folder)))
    import numpy
    import torch
    from layers import Generator
    from tasks.imggen_model import ImggenModel

    wants_args = "args" in inspect.signature(ImggenModel.__init__).parameters  # in some commits, and unused there
    try:
        model = ImggenModel.from_pretrained("bert-base-uncased", **({"args": args} if wants_args else {}))
    except OSError as err:
        raise kit.Missing(f"bert-base-uncased, which the model is built on, could not be loaded: {err}") from err
    weights = without_prefix(torch.load(files["X-LXMERT"], map_location="cpu"))
    centroids = numpy.load(args.centroids) if args.centroids else weights.get("vis_emb.weight")
    if centroids is None:
        raise kit.Missing(
            f"{files['X-LXMERT']} does not hold the visual vocabulary; give the file of centroids (10,000 x 2,048) "
            "with --centroids"
        )
    model.set_visual_embedding(centroids)
    load_all(model, weights, files["X-LXMERT"], parts=("bert.", "obj_predict_head.", "mask_feat"))
    generator = Generator(
        base_dim=32, emb_dim=FEATURES, norm_type="spade_in", target_size=SIZE, init_H=GRID, init_W=GRID, SN=True,
        codebook_dim=256,
    )  # fmt: skip
    load_all(generator, without_prefix(torch.load(files["generator"], map_location="cpu")), files["generator"])
    model.set_image_generator(generator)
    if torch.cuda.is_available():
        model.cuda()
    else:
        print("no GPU: the released code of this model moves tensors to one, and is likely to fail")
    model.eval()

    def paint(requests):
        return [paint_one(request) for request in requests]

    def paint_one(request):
        kit.seed_everything(request["seed"])  # the choice of tokens is fixed, but the generator adds noise
        sentence = " ".join(request["prompt"].split())
        with torch.no_grad():
            images = model.sample_image_NAR(
                [sentence],
                max_text_length=settings["max_text_length"],
                n_steps=settings["steps"],
                return_intermediate=False,
            )
        return kit.to_image(images[0])

    return paint


def without_prefix(weights):
    """Weights saved by a model on several GPUs, with the names of one on a single GPU."""
    return {key[len("module.") :] if key.startswith("module.") else key: value for key, value in weights.items()}


def load_all(model, weights, path, parts=("",)):
    """Load weights, and refuse if some that are needed (their names begin with one of ``parts``) are not there.

    The released code ignores what does not fit, so that a wrong file gives noise instead of a message.
    """
    absent = [key for key in model.load_state_dict(weights, strict=False)[0] if key.startswith(tuple(parts))]
    if absent:
        raise kit.Missing(f"{path} lacks {len(absent)} of the model's weights, such as {absent[0]}")


if __name__ == "__main__":
    parser = kit.arguments("X-LXMERT images for verism, one at a time", SETTINGS)
    parser.add_argument("--repository", default="x-lxmert", help="folder of the cloned repository")
    parser.add_argument("--weights", help="Epoch20_LXRT.pth; default: its place in the repository")
    parser.add_argument("--generator", help="G_60.pth; default: its place in the repository")
    parser.add_argument("--centroids", help="visual vocabulary, .npy; default: as saved with the weights")
    kit.main(parser, SETTINGS, load, "x-lxmert")
