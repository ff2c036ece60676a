"""Names on the command line: parsed, found late, and near ones suggested."""

import importlib
import json
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from verism.errors import UsageError, VerismError
from verism.imaging import encode_png
from verism.registry import (
    GENERATORS,
    JUDGES,
    Context,
    Spec,
    kinds,
    make_generator,
    make_judge,
    make_renderer,
)
from verism.suites.catalogue import SUITES, make_suite, suite_class


@pytest.mark.parametrize(
    ("text", "kind", "argument", "options"),
    [
        ("builtin", "builtin", "", {}),
        ("builtin:detector/detector.onnx", "builtin", "detector/detector.onnx", {}),
        ("scripted:error=0.2", "scripted", "", {"error": "0.2"}),
        ("scripted:?error=0.2", "scripted", "", {"error": "0.2"}),
        ("cascade?min_face=32&note=a:b", "cascade", "", {"min_face": "32", "note": "a:b"}),
        ("scripted:error=0.2&mistakes=count+class", "scripted", "", {"error": "0.2", "mistakes": "count class"}),
        ("transformers:org/model", "transformers", "org/model", {}),
        (
            "transformers:org/model?revision=abc&alias.bike=bicycle",
            "transformers",
            "org/model",
            {"revision": "abc", "alias.bike": "bicycle"},
        ),
        (r"detr:C:\weights.pth?classes=coco91", "detr", r"C:\weights.pth", {"classes": "coco91"}),
        ("command:./paint --x=1?ahead=8", "command", "./paint --x=1?ahead=8", {}),
        ("python:mine:make?steps=3", "python", "mine:make", {"steps": "3"}),
        ("diffusers:org/m?steps=50&guidance=7.5", "diffusers", "org/m", {"steps": "50", "guidance": "7.5"}),
        ("open-vocabulary:m?template=a photo of {}", "open-vocabulary", "m", {"template": "a photo of {}"}),
    ],
)
def test_names_are_kind_argument_and_options(text, kind, argument, options):
    assert Spec.parse(text) == Spec(kind, argument, options)


def test_a_file_whose_name_holds_an_equals_sign_is_a_file(tmp_path):
    path = tmp_path / "lr=0.1.onnx"
    path.touch()
    assert Spec.parse(f"builtin:{path}") == Spec("builtin", str(path), {})


@pytest.mark.parametrize("text", ["scripted:error=0.2&fast", "transformers:m?revision"])
def test_options_without_a_value_are_refused(text):
    with pytest.raises(UsageError, match="options are written key=value&key=value"):
        Spec.parse(text)


def test_every_name_leads_to_a_factory():
    for table in (GENERATORS, *JUDGES.values()):
        for target, description in table.values():
            module, _, name = target.partition(":")
            assert callable(getattr(importlib.import_module(module), name))
            assert description


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: make_judge("bultin", c), "unknown detector 'bultin'. Did you mean builtin? There are: builtin, tra"),
        (lambda c: make_judge("zzz", c), "unknown detector 'zzz'. There are: builtin"),
        (lambda c: make_judge("cascade", c), "'cascade' is no detector: it serves as --skin-tone. There are: builtin"),
        (lambda c: make_generator("orcale", c), "unknown model 'orcale'. Did you mean oracle?"),
        (lambda _: make_suite("paintskils"), "unknown suite 'paintskils'. Did you mean paintskills"),
        (lambda _: suite_class("nope"), "unknown suite 'nope'. There are: paintskills, paintskills_v1"),
        (lambda _: make_suite("paintskills", skills=["spatail"]), "has no skill 'spatail'; it has ['object', 'count'"),
        (lambda _: make_suite("paintskills", split="tset"), "unknown split 'tset'; choose train, val or test"),
        (lambda c: make_generator("scripted:error=lots", c), "scripted: option error='lots': expected a number"),
        (lambda c: make_generator("scripted:error=2", c), "error must lie between 0 and 1, got 2"),
        (
            lambda c: make_generator("scripted:mistakes=colour", c),
            "option mistakes='colour': expected one of count, class, relation, color, binding, empty, texture, shape, "
            "misspelt, missing, surplus, swapped, repeated, garbled, several with +",
        ),
        (lambda c: make_generator("oracle:error=0.1", c), "oracle: unknown option 'error'. It takes no options"),
        (lambda c: make_generator("oracle:x", c), "oracle: takes no argument, got 'x'"),
        (lambda c: make_generator("builtin:nowhere", c), "nowhere has no writer.onnx"),
        (
            lambda c: make_generator("builtin:heat=3", c),
            "builtin: unknown option 'heat'. Its options are edition, size, temperature, structure_temperature, top_p",
        ),
        (lambda c: make_generator("builtin:top_p=2", c), "top_p must lie above 0"),
        (lambda c: make_generator("images:nowhere", c), "--images nowhere: no such folder or manifest"),
        (
            lambda c: make_generator("images", c),
            "images: write images:SOURCE (folder of images, or a table (.csv, .jsonl) of paths)",
        ),
        (
            lambda c: make_generator("command", c),
            "command: write command:COMMAND (program and its arguments, split as a shell does",
        ),
        (lambda c: make_generator("command:./not-there?ahead=8", c), "not-there"),
        (lambda c: make_generator("python:json", c), "expected python:module:factory"),
        (lambda c: make_generator("openai", c), "openai: write openai:MODEL (name of the model at the service"),
        (lambda c: make_generator("openai:m?sise=9", c), "openai: unknown option 'sise'. Did you mean size?"),
        (
            lambda c: make_generator("diffusers", c),
            "diffusers: write diffusers:MODEL (model id on the Hugging Face Hub",
        ),
        (lambda c: make_generator("diffusers:m?steps=many", c), "option steps='many': expected a whole number or none"),
        (
            lambda c: make_judge("transformers", c),
            "transformers: write transformers:ID_OR_PATH (model id on the Hugging Face Hub",
        ),
        (lambda c: make_judge("detr:f?dilation=maybe", c), "option dilation='maybe': expected true or false or none"),
        (lambda _: make_renderer(Context(size=32)), "--size must be 64 to 2048 pixels, got 32"),
        (lambda _: make_renderer(Context(size=4096, processes=2)), "--size must be 64 to 2048 pixels, got 4096"),
        (lambda _: make_renderer(Context(assets=Path("nowhere"))), "--assets nowhere: no such folder"),
        (lambda _: make_renderer(Context(assets=Path("nowhere"), processes=2)), "--assets nowhere: no such folder"),
    ],
)
def test_what_is_wrong_is_a_usage_error_that_helps(call, message):
    with pytest.raises(UsageError) as err:
        call(Context())
    assert message in str(err.value)


def test_scripted_renderers_carry_their_settings_in_their_names(suite):
    context = Context(classes=suite.classes, colors=suite.colors, size=64)
    assert make_generator("oracle", context).name == "scripted:error=0(simulator-2@64)"
    assert make_generator("scripted", context).name == "scripted:error=0.2(simulator-2@64)"
    named = make_generator("scripted:error=0.5&mistakes=class+empty", context).name
    assert named == "scripted:error=0.5&mistakes=class+empty(simulator-2@64)"


PLUGINS = '''
from pathlib import Path
from typing import Literal


class Owl:
    """Sees at night.

    Args:
        place: where it sits.
        min_score: boxes less sure are not reported.
        device: where it computes.
        size: of its input.
    """

    role = "detector"
    name = "owl-1"

    def __init__(self, place: Path, *, min_score: float = 0.5, device: str | None = None, size: int = 8) -> None:
        self.settings = place, min_score, device, size

    def observe(self, images, need): ...


class Ear:
    """Hears what images mean."""

    roles = ("clip", "features")
    name = "ear-1"

    def observe(self, images, need): ...


class Mute:
    """Says not what it is for."""


def shapes(*, kind: Literal["square", "disc"] = "square", size: int = 64, prompts, painter=None):
    """Draws shapes."""
    return kind, size, prompts


missing = "not callable"
'''


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """Names the entry points of a package ``elsewhere``: ``plugins("judges", owl="Owl")``."""
    (tmp_path / "elsewhere_parts.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "elsewhere_parts", raising=False)
    results: list[metadata.EntryPoint] = []

    def install(group: str, module: str = "elsewhere_parts", **names: str) -> None:
        results.extend(
            metadata.EntryPoint(name.replace("_", "-"), f"{module}:{value}", f"verism.{group}")
            for name, value in names.items()
        )

    monkeypatch.setattr("verism.plugins.entry_points", lambda *, group: [e for e in results if e.group == group])
    return install


def test_plugin_judge_named_gets_argument_options_and_context(plugins):
    plugins("judges", owl="Owl")
    context = Context(device="cpu", size=512)  # of rendered images, and not of what a judge's network reads
    assert make_judge("owl:night?min_score=0.3", context).settings == (Path("night"), 0.3, "cpu", 8)
    assert make_judge("owl:night?device=cuda", context).settings == (Path("night"), 0.5, "cuda", 8)


def test_plugin_generator_named_gets_what_the_run_knows(plugins):
    plugins("generators", shapes="shapes")
    assert make_generator("shapes:kind=disc", Context(size=32, prompts=("p",))) == ("disc", 32, ("p",))


@pytest.mark.parametrize(
    ("text", "role", "message"),
    [
        (
            "owl:night?min_scor=1",
            "detector",
            "owl: unknown option 'min_scor'. Did you mean min_score.? Its options are min_sc",
        ),
        ("owl", "detector", r"owl: write owl:PLACE \(where it sits\)"),
        ("owl:night", "features", "'owl' is no features: it serves as --detector. There are: .*ear"),
        ("owll:night", "detector", "unknown detector 'owll'. Did you mean owl.* There are: builtin, .*, owl"),
        ("mute", "detector", "the judge 'mute' of elsewhere_parts declares no role; give its class an attribute role"),
        ("gone", "detector", "the plug-in 'gone' of nowhere .nowhere:Thing. cannot be loaded: ModuleNotFoundError"),
        ("missing", "detector", "the plug-in 'missing' of elsewhere_parts is no class or function: 'not callable'"),
        ("twice", "detector", "'twice' comes from elsewhere_parts and by elsewhere_parts; uninstall one"),
    ],
)
def test_plugin_judge_named_wrongly_is_refused(plugins, text, role, message):
    plugins("judges", owl="Owl", ear="Ear", mute="Mute", missing="missing", twice="Owl")
    plugins("judges", twice="Owl")
    plugins("judges", module="nowhere", gone="Thing")
    with pytest.raises(VerismError, match=message):
        make_judge(text, Context(), role)


def test_plugin_judge_named_alone_is_no_model_of_the_hub(plugins):
    plugins("judges", ear="Ear")
    assert make_judge("ear", Context(), "clip").name == "ear-1"
    assert make_judge("ear", Context(), "features").name == "ear-1"


def test_kinds_list_plugins_with_their_package(plugins):
    plugins("judges", owl="Owl", ear="Ear", mute="Mute", detr="Owl")
    broken: list[str] = []
    (owl,) = [kind for kind in kinds("detector", broken=broken) if kind.package]
    assert (owl.name, owl.text, owl.package) == ("owl", "Sees at night.", "elsewhere_parts")
    assert [option.name for option in owl.signature("detector").options] == ["min_score", "device", "size"]
    assert [message.partition(" of ")[0] for message in broken] == ["the judge 'mute'", "the plug-in 'detr'"]


def test_every_option_of_every_kind_has_a_sentence():
    for role in (None, *JUDGES):
        for kind in kinds(role):
            signature = kind.signature(role)
            for option in filter(None, (*signature.options, signature.argument)):
                assert len(option.help.split()) > 2, f"{role or 'model'} {kind.name}: {option.name}"


def test_defaults_are_those_that_stored_runs_were_made_with():
    """Batch sizes of two detectors differed between the command line and the class: the command line's count."""
    sizes = {
        kind.name: option.default
        for kind in kinds("detector")
        for option in kind.signature("detector").options
        if option.name == "batch_size"
    }
    assert sizes == {"builtin": 8, "transformers": 8, "detr": 4, "open-vocabulary": 8}


def test_suites_are_those_listed(tmp_path):
    (tmp_path / "prompts.txt").write_text("a red cup\na blue cup\n")
    (tmp_path / "a.png").write_bytes(encode_png(np.zeros((4, 4, 3), np.uint8)))
    asked = {"prompt": "a ladder", "atom_count": 1, "vqa_list": [["Is it a ladder?", "Yes"]], "skills": ["object"]}
    (tmp_path / "asked.jsonl").write_text(json.dumps(asked) + "\n")
    (tmp_path / "unsafe.csv").write_text("prompt,categories\na quiet harbour,shocking\n")
    needed = {
        "unsafe_content": {"prompts_file": tmp_path / "unsafe.csv", "own": True},
        "quality": {"images": tmp_path, "reference": tmp_path},
        "alignment": {"prompts": tmp_path / "prompts.txt"},
        "geneval2": {"prompts_file": tmp_path / "asked.jsonl", "own": True},
    }
    for name in SUITES:
        suite = make_suite(name, **needed.get(name, {"limit": 200}))
        assert suite.name == name
        assert suite_class(name).reopen(suite.settings(), suite.prompts()).prompts() == suite.prompts()


def test_a_role_of_one_kind_needs_no_name_of_its_kind(tmp_path):
    from tiny_models import tiny_clip

    folder = tiny_clip(tmp_path / "clip")
    bare = make_judge(str(folder), Context(), "clip")
    assert make_judge(f"clip:{folder}", Context(), "clip").name == bare.name
    with pytest.raises(UsageError, match="clip: write clip:ID_OR_PATH"):  # a kind, and no model of that name on the hub
        make_judge("clip?local_files_only=true", Context(), "clip")
    with pytest.raises(UsageError, match="no/clip is not in the hub's cache"):
        make_judge("no/clip?local_files_only=true", Context(), "clip")


def test_an_option_a_suite_does_not_have_is_refused_by_name():
    with pytest.raises(UsageError, match="suite geography does not take skills; its options are reference, images"):
        make_suite("geography", skills=["count"])


def test_the_address_of_an_image_service_comes_from_the_context_or_the_name():
    from verism.generators.openai_images import OpenAIImages

    here = Context(base_url="http://127.0.0.1:9/v1")
    made = make_generator("openai:mine?size=64x64&extra.steps=4", here)
    assert isinstance(made, OpenAIImages)
    assert "127.0.0.1" in made.name
    assert "64x64" in made.name
    assert "steps" in made.name
    named = make_generator("openai:mine?base_url=http://127.0.0.2:9/v1&per_minute=5&allow_http=yes", here)
    assert "127.0.0.2" in named.name
    assert (named.client.options.per_minute, named.client.options.allow_http) == (5, True)


def test_options_of_a_command_are_told_from_its_own():
    made = make_generator(f"command:{sys.executable} -c x=1?ahead=3&timeout=9", Context())
    assert made.name.startswith(f"command:{sys.executable} -c x=1")
    assert "ahead" not in made.name
    with pytest.raises(UsageError, match="option ahead='some'"):
        make_generator(f"command:{sys.executable}?ahead=some", Context())


def test_suites_of_verism_are_found_without_a_search_of_installed_packages(monkeypatch):
    def search(**_: str) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr("verism.plugins.entry_points", search)
    assert suite_class("paintskills").info.name == "paintskills"
    with pytest.raises(AssertionError, match="searched"):
        suite_class("nope")
