"""Names on the command line: parsed, found late, and near ones suggested."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from verism.errors import UsageError
from verism.imaging import encode_png
from verism.registry import (
    GENERATORS,
    JUDGES,
    SUITES,
    Context,
    Spec,
    make_generator,
    make_judge,
    make_painter,
    make_suite,
    stored_suite,
)


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
        (lambda c: make_generator("orcale", c), "unknown model 'orcale'. Did you mean oracle?"),
        (lambda _: make_suite("paintskils"), "unknown suite 'paintskils'. Did you mean paintskills"),
        (lambda _: stored_suite("nope", {}, ()), "unknown suite 'nope'. There are: paintskills, paintskills-v1"),
        (lambda _: make_suite("paintskills", skills=["spatail"]), "has no skill 'spatail'; it has ['object', 'count'"),
        (lambda _: make_suite("paintskills", split="tset"), "unknown split 'tset'; choose train, val or test"),
        (lambda c: make_generator("scripted:error=lots", c), "option error='lots': expected a float"),
        (lambda c: make_generator("scripted:error=2", c), "error must lie between 0 and 1, got 2"),
        (lambda c: make_generator("scripted:mistakes=colour", c), "unknown mistakes ['colour']"),
        (lambda c: make_generator("oracle:error=0.1", c), "oracle: unknown option ['error']"),
        (lambda c: make_generator("oracle:x", c), "oracle: takes no argument, got 'x'"),
        (lambda c: make_generator("builtin:nowhere", c), "nowhere has no writer.onnx"),
        (lambda c: make_generator("builtin:heat=3", c), "builtin: unknown option ['heat']"),
        (lambda c: make_generator("builtin:top_p=2", c), "top_p must lie above 0"),
        (lambda c: make_generator("images:nowhere", c), "--images nowhere: no such folder or manifest"),
        (lambda c: make_generator("images", c), "images: name a model"),
        (lambda c: make_generator("command", c), "command: name a model"),
        (lambda c: make_generator("command:./not-there?ahead=8", c), "not-there"),
        (lambda c: make_generator("python:json", c), "expected python:module:factory"),
        (lambda c: make_generator("openai", c), "openai: name a model"),
        (lambda c: make_generator("openai:m?sise=9", c), "openai: unknown option ['sise']"),
        (lambda c: make_generator("diffusers", c), "diffusers: name a model"),
        (lambda c: make_generator("diffusers:m?steps=many", c), "option steps='many': expected a int"),
        (lambda c: make_judge("transformers", c), "transformers: name a model, for example transformers:some-id"),
        (lambda c: make_judge("detr:f?dilation=maybe", c), "option dilation='maybe': expected true or false"),
        (lambda _: make_painter(Context(size=32)), "--size must be 64 to 2048 pixels, got 32"),
        (lambda _: make_painter(Context(size=4096, processes=2)), "--size must be 64 to 2048 pixels, got 4096"),
        (lambda _: make_painter(Context(assets=Path("nowhere"))), "--assets nowhere: no such folder"),
        (lambda _: make_painter(Context(assets=Path("nowhere"), processes=2)), "--assets nowhere: no such folder"),
    ],
)
def test_what_is_wrong_is_a_usage_error_that_helps(call, message):
    with pytest.raises(UsageError) as err:
        call(Context())
    assert message in str(err.value)


def test_scripted_painters_carry_their_settings_in_their_names(suite):
    context = Context(classes=suite.shapes, colors=suite.colors, size=64)
    assert make_generator("oracle", context).name == "scripted:error=0(simulator-1@64)"
    assert make_generator("scripted", context).name == "scripted:error=0.2(simulator-1@64)"
    named = make_generator("scripted:error=0.5&mistakes=class+empty", context).name
    assert named == "scripted:error=0.5&mistakes=class+empty(simulator-1@64)"


def test_other_packages_add_judges_by_entry_point(tmp_path, monkeypatch):
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[verism.judges]\nowl = elsewhere_judge:make\n")
    (tmp_path / "elsewhere_judge.py").write_text("def make(argument, options, context): return argument, options\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert make_judge("owl:night?min_score=0.3", Context()) == ("night", {"min_score": "0.3"})
    assert "elsewhere_judge" in sys.modules


def test_suites_are_those_listed(tmp_path):
    (tmp_path / "prompts.txt").write_text("a red cup\na blue cup\n")
    (tmp_path / "a.png").write_bytes(encode_png(np.zeros((4, 4, 3), np.uint8)))
    needed = {
        "quality": {"images": tmp_path, "reference": tmp_path},
        "alignment": {"prompts": tmp_path / "prompts.txt"},
    }
    for name in SUITES:
        suite = make_suite(name, **needed.get(name, {"limit": 200}))
        assert suite.name == name
        assert stored_suite(name, suite.settings(), suite.prompts()).prompts() == suite.prompts()


def test_a_role_of_one_kind_needs_no_name_of_its_kind(tmp_path):
    from tiny_models import tiny_clip

    folder = tiny_clip(tmp_path / "clip")
    bare = make_judge(str(folder), Context(), "clip")
    assert make_judge(f"clip:{folder}", Context(), "clip").name == bare.name
    with pytest.raises(UsageError, match="cannot load 'clip'"):  # the name of a folder that is not here, and no kind
        make_judge("clip?local_files_only=true", Context(), "clip")


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
